import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";

import { GroupPage } from "../src/pages/GroupPage";
import { Overview } from "../src/pages/Overview";
import { TaskTab } from "../src/pages/TaskTab";
import { type Answer, group, me, serve, show, waiter } from "./world";

const HEALTHY = { "GET coordinators": { body: { coordinators: [] } }, "GET health": { body: { healthy: true, problems: [] } } };

const overview = (groups: unknown[], may: boolean, alive = 1) => ({
  ...HEALTHY,
  "GET groups": { body: { coordinators_alive: alive, groups } },
  "GET me": { body: me(may) },
});

const groupPage = (requests: unknown[], may: boolean, more: Record<string, Answer> = {}) => ({
  ...overview([group()], may),
  "GET groups/warehouse": { body: group({ waiting: requests.length }) },
  "GET holders/warehouse": { body: { hidden: 0, requests: [], total: 0 } },
  "GET waiters/warehouse": { body: { hidden: 0, requests, total: requests.length } },
  ...more,
});

const press = async (name: RegExp | string) => fireEvent.click(await screen.findByRole("button", { name }));
const dialog = async () =>
  within(
    await waitFor(() => {
      const found = document.querySelector<HTMLElement>("[role='dialog'], [role='alertdialog']");
      if (found === null) throw new Error("no dialog");
      return found;
    }),
  );

const choose = (input: HTMLElement, text: string) => fireEvent.change(input, { target: { files: [new File([text], "groups.json")] } });

describe("overview", () => {
  it("shows each group with its use, and offers what the user may do", async () => {
    serve(overview([group({ description: "nightly loads", waiting: 17 })], true));
    show(<Overview />);
    expect(await screen.findByText("nightly loads")).toBeDefined();
    expect(screen.getByRole("img", { name: "4 of 4 in use: 4 running" })).toBeDefined();
    expect(screen.getByRole("link", { name: "warehouse" }).getAttribute("href")).toBe("/plugin/slot-groups?group=warehouse");
    expect(await screen.findByRole("button", { name: "New group" })).toBeDefined();
    expect(screen.getByRole("button", { name: "Actions for warehouse" })).toBeDefined();
  });

  it("offers a viewer the export alone", async () => {
    serve(overview([group()], false));
    show(<Overview />);
    await screen.findByText("4 / 4");
    await screen.findByRole("button", { name: "Export" });
    expect(screen.getAllByRole("button")).toHaveLength(1);
  });

  it("draws how many waited over the last hour", async () => {
    const past = [3, 20, 18].map((most_waiting) => ({ most_waiting }));
    const asked = serve({ ...overview([group({ waiting: 17 })], false), "GET history/warehouse": { body: { buckets: past } } });
    show(<Overview />);
    const line = await screen.findByRole("img", { name: "waiting, last hour: 17 now, 20 at most" });
    expect(line.querySelector("polyline")?.getAttribute("points")).toBe("0,19 30,0 60,2 90,3");
    const [question] = asked.filter((one) => one.path === "history/warehouse");
    expect([question?.query.get("hours"), question?.query.get("buckets")]).toEqual(["1", "12"]);
  });

  it("says that nobody lets waiters in", async () => {
    serve(overview([group()], false, 0));
    show(<Overview />);
    expect((await screen.findByRole("alert")).textContent).toContain("No coordinator is alive");
  });

  it("says what to do where there is no group", async () => {
    serve(overview([], true));
    show(<Overview />);
    expect(await screen.findByText(/Adopt a pool that tasks name already/)).toBeDefined();
  });

  it("makes a group, and shows why it can not", async () => {
    let status = 409;
    const asked = serve({
      ...overview([group()], true),
      "POST groups": () =>
        status === 409
          ? { body: { can_retry: false, detail: "'api' is an ordinary pool", remedy: "adopt it" }, status }
          : { body: group({ pool: "api" }), status },
    });
    show(<Overview />);
    await press("New group");
    const form = await dialog();
    fireEvent.change(form.getByLabelText("Name"), { target: { value: "api" } });
    fireEvent.change(form.getByLabelText("Size"), { target: { value: "3" } });
    fireEvent.click(form.getByRole("button", { name: "Create" }));
    expect((await form.findByRole("alert")).textContent).toContain("'api' is an ordinary pooladopt it");
    status = 201;
    fireEvent.click(form.getByRole("button", { name: "Create" }));
    expect(await screen.findByText("api is made")).toBeDefined();
    expect(asked.filter((one) => one.method === "POST").at(-1)?.body).toMatchObject({ pool: "api", slots: 3, strategy: "strict" });
  });

  it("exports the groups to a file", async () => {
    serve({ ...overview([group()], false), "GET export": { body: { warehouse: { slots: 4 }, api: { slots: 3 } } } });
    const saved: Blob[] = [];
    Object.assign(URL, { createObjectURL: (blob: Blob) => `blob:${saved.push(blob)}`, revokeObjectURL: () => undefined });
    const click = vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(() => undefined);
    show(<Overview />);
    await press("Export");
    await waitFor(() => expect(click).toHaveBeenCalled());
    expect(await saved[0]?.text()).toBe('{\n    "api": {\n        "slots": 3\n    },\n    "warehouse": {\n        "slots": 4\n    }\n}\n');
  });

  it("imports a file, after saying what it does, and shows why it can not", async () => {
    let status = 422;
    const asked = serve({
      ...overview([group()], true),
      "GET /api/v2/pools": { body: { pools: [{ name: "api" }], total_entries: 1 } },
      "POST import": () =>
        status === 422
          ? { body: { detail: "groups.json: 'api': slots can not be -5", remedy: "mend the file" }, status }
          : { body: { done: { api: "adopted", warehouse: "changed" } } },
    });
    show(<Overview />);
    await press("Import…");
    const form = await dialog();
    choose(form.getByLabelText("File"), "{");
    expect(await form.findByText(/This is no JSON/)).toBeDefined();
    expect(form.getByRole("button", { name: "Import" }).hasAttribute("disabled")).toBe(true);
    choose(form.getByLabelText("File"), '{"api": {"slots": 3}, "warehouse": {"slots": 8}}');
    expect(await form.findByText(/api is an ordinary pool/)).toBeDefined();
    expect(form.getByText("warehouse is changed: slots 4 → 8")).toBeDefined();
    fireEvent.click(form.getByRole("checkbox"));
    expect(await form.findByText("api is adopted: 3 slots")).toBeDefined();
    fireEvent.change(form.getByLabelText("Comment"), { target: { value: "moved" } });
    fireEvent.click(form.getByRole("button", { name: "Import" }));
    expect((await form.findByRole("alert")).textContent).toContain("slots can not be -5");
    status = 200;
    fireEvent.click(form.getByRole("button", { name: "Import" }));
    expect(await screen.findByText("1 adopted, 1 changed")).toBeDefined();
    expect(asked.filter((one) => one.method === "POST").at(-1)?.body).toEqual({
      adopt: true,
      comment: "moved",
      groups: { api: { slots: 3 }, warehouse: { slots: 8 } },
      source: "groups.json",
    });
  });
});

describe("group", () => {
  it("forces a start with a comment, after saying what it means", async () => {
    const asked = serve({
      ...groupPage([waiter()], true),
      "POST force-start/warehouse": { body: { requests: [waiter({ position: null, state: "granted" })] } },
    });
    show(<GroupPage pool="warehouse" />);
    await press("Force start load_orders › copy");
    const form = await dialog();
    expect(form.getByText(/use will be 5 of 4/)).toBeDefined();
    fireEvent.change(form.getByLabelText("Comment"), { target: { value: "urgent" } });
    fireEvent.click(form.getByRole("button", { name: "Force start" }));
    expect(await screen.findByText("load_orders › copy started by force")).toBeDefined();
    expect(asked.find((one) => one.method === "POST")?.body).toEqual({ comment: "urgent", request_ids: [1] });
  });

  it("does not say of a request that is still held that it started", async () => {
    const held = waiter({ reason: "DAG 'load_orders' is paused", reason_code: "dag_paused" });
    serve({ ...groupPage([waiter()], true), "POST force-start/warehouse": { body: { requests: [held] } } });
    show(<GroupPage pool="warehouse" />);
    await press("Force start load_orders › copy");
    fireEvent.click((await dialog()).getByRole("button", { name: "Force start" }));
    expect(await screen.findByText("load_orders › copy forced; still held: DAG 'load_orders' is paused")).toBeDefined();
    expect(screen.queryByText(/started by force/)).toBeNull();
  });

  it("deletes with a comment", async () => {
    const unused = group({ holding: 0, use: { ...group().use, running: 0, total: 0 } });
    const asked = serve({ ...groupPage([], true, { "GET groups/warehouse": { body: unused } }), "DELETE groups/warehouse": { status: 204 } });
    show(<GroupPage pool="warehouse" />);
    await press("Delete");
    const form = await dialog();
    fireEvent.change(form.getByLabelText("Comment"), { target: { value: "no longer needed" } });
    fireEvent.click(form.getByRole("button", { name: "Delete" }));
    expect(await screen.findByText("warehouse is deleted")).toBeDefined();
    expect(asked.find((one) => one.method === "DELETE")?.query.get("comment")).toBe("no longer needed");
  });

  it("asks for no comment on a deletion that can not be", async () => {
    serve(groupPage([], true));
    show(<GroupPage pool="warehouse" />);
    await press("Delete");
    const form = await dialog();
    expect(form.getByText(/It is in use/)).toBeDefined();
    expect(form.getByRole("button", { name: "Delete" }).hasAttribute("disabled")).toBe(true);
    expect(form.queryByLabelText("Comment")).toBeNull();
  });

  it("says how old it is to eyes alone, and how many DAGs use it", async () => {
    const dag = { dag_id: "load_orders", paused: false, tasks: [] };
    serve({ ...groupPage([], false), "GET where-used/warehouse": { body: { dags: [dag], hidden: 1 } } });
    show(<GroupPage pool="warehouse" />);
    expect(await screen.findByRole("tab", { name: "Where used 2 DAGs" })).toBeDefined();
    expect(screen.getByText("refreshed 0 s ago").getAttribute("aria-hidden")).toBe("true");
  });

  it("acts on all that are selected at once", async () => {
    const two = [waiter(), waiter({ position: 2, request_id: 2, task_id: "clean" })];
    const asked = serve({ ...groupPage(two, true), "POST suspend/warehouse": { body: { requests: two } } });
    show(<GroupPage pool="warehouse" />);
    fireEvent.click(await screen.findByLabelText("Select all of this page"));
    expect(screen.getByText("2 requests selected")).toBeDefined();
    await press("Suspend");
    const form = await dialog();
    fireEvent.click(form.getByRole("button", { name: "Suspend" }));
    expect(await screen.findByText("2 requests suspended")).toBeDefined();
    expect(asked.find((one) => one.method === "POST")?.body).toEqual({ comment: null, request_ids: [1, 2] });
  });

  it.each([
    [["no_room", "no_room"], ["Suspend"]],
    [["suspended", "suspended"], ["Unsuspend"]],
    [["no_room", "suspended"], ["Suspend", "Unsuspend"]],
  ])("offers for %j %j", async (codes, offered) => {
    serve(groupPage(codes.map((reason_code, at) => waiter({ reason_code, request_id: at + 1 })), true));
    show(<GroupPage pool="warehouse" />);
    fireEvent.click(await screen.findByLabelText("Select all of this page"));
    const bar = within(screen.getByRole("group", { name: "Selected requests" }));
    expect(bar.getAllByRole("button", { name: /uspend/ }).map((button) => button.textContent)).toEqual(offered);
    fireEvent.click(bar.getByRole("button", { name: "Deselect" }));
    expect(screen.queryByText("2 requests selected")).toBeNull();
  });

  it("offers no lever to a viewer, nor on a row of a DAG that he may not change", async () => {
    serve(groupPage([waiter()], false));
    show(<GroupPage pool="warehouse" />);
    await screen.findByText("needs 1, 0 free");
    expect(screen.queryByRole("button", { name: /Force|Priority|Pause|Edit/ })).toBeNull();
    expect(screen.queryByRole("checkbox")).toBeNull();
  });

  it("offers none on a single row either", async () => {
    serve(groupPage([waiter(), waiter({ can_act: false, request_id: 2, task_id: "theirs" })], true));
    show(<GroupPage pool="warehouse" />);
    expect(await screen.findByRole("button", { name: "Force start load_orders › copy" })).toBeDefined();
    expect(screen.queryByRole("button", { name: /theirs/ })).toBeNull();
  });

  it("names no task of a DAG that may not be seen", async () => {
    const hidden = waiter({ can_act: false, dag_id: null, reason: "-", run_id: null, task_id: null });
    serve(groupPage([hidden], true));
    show(<GroupPage pool="warehouse" />);
    expect(await screen.findByText("a task of a DAG that you may not see")).toBeDefined();
  });

  it("asks for the part of the queue that is typed", async () => {
    const asked = serve(groupPage([waiter()], true));
    show(<GroupPage pool="warehouse" />);
    fireEvent.change(await screen.findByLabelText("Filter by DAG, task or run"), { target: { value: "copy" } });
    await waitFor(() => expect(asked.some((one) => one.query.get("search") === "copy")).toBe(true));
  });

  it("links an ended request to its run", async () => {
    const past = { ...waiter(), admission: "queue", comment: null, end_reason: "ended", ended_at: "2026-11-30T02:00:00Z", held_seconds: 2, waited_seconds: 247 };
    serve({ ...groupPage([], false), "GET ended/warehouse": { body: { hidden: 0, requests: [past], total: 1 } } });
    show(<GroupPage pool="warehouse" />, "/plugin/slot-groups?group=warehouse&tab=history");
    expect((await screen.findByRole("link", { name: "morning" })).getAttribute("href")).toBe("/dags/load_orders/runs/morning");
  });

  it("turns to the page on which a request stands", async () => {
    const asked = serve({
      ...groupPage([], true),
      "GET waiters/warehouse": { body: { hidden: 0, requests: [waiter({ position: 250, request_id: 77 })], total: 300 } },
    });
    show(<GroupPage pool="warehouse" />, "/plugin/slot-groups?group=warehouse&request=77");
    await waitFor(() => expect(asked.some((one) => one.query.get("offset") === "200")).toBe(true));
    expect(asked.some((one) => one.query.get("request_id") === "77")).toBe(true);
    await waitFor(() => expect(document.querySelector("[data-request='77'][aria-current='true']")).not.toBeNull());
  });

  it("says that a request has ended", async () => {
    serve(groupPage([], true));
    show(<GroupPage pool="warehouse" />, "/plugin/slot-groups?group=warehouse&request=77");
    expect(await screen.findByText("Request 77 neither waits nor holds: it has ended")).toBeDefined();
  });

  it.each([
    [404, "Choose a group in the overview, or make one or adopt a pool there."],
    [503, "run the migration"],
  ])("shows a refusal of the whole page with its remedy: %d", async (status, remedy) => {
    serve({ ...overview([], true), "GET groups/gone": { body: { detail: "there is no slot group 'gone'", remedy: "run the migration" }, status } });
    show(<GroupPage pool="gone" />);
    expect(await screen.findByText("There is no slot group 'gone'")).toBeDefined();
    expect(screen.getByText(remedy)).toBeDefined();
    expect(screen.getByRole("link", { name: "See all slot groups" })).toBeDefined();
  });
});

describe("tab", () => {
  const explanation = {
    checks: [
      { holds: false, name: "dag_paused", text: "DAG 'load_orders' is not paused", use: "", value: "" },
      { holds: true, name: "slot_group", text: "waits in slot group 'warehouse'", use: "", value: "" },
    ],
    name: "slot_group",
    pool: "warehouse",
    request: waiter({ position: 2 }),
    sentence: "waits in slot group 'warehouse'",
  };
  const tab = <TaskTab dagId="load_orders" runId="morning" taskId="copy" />;

  it("says where a waiter stands, and why", async () => {
    serve({ ...groupPage([], true), "GET explain": { body: explanation }, "GET groups/warehouse": { body: group({ waiting: 17 }) } });
    show(tab);
    expect((await screen.findByRole("heading", { level: 2 })).textContent).toBe("Waits for 1 slot of warehouse: place 2 of 17");
    expect(screen.getByTestId("reason").textContent).toBe("Needs 1, 0 free");
    expect(await screen.findByRole("button", { name: "Force start…" })).toBeDefined();
  });

  it("shows what has been and what is ahead, in order", async () => {
    const request = waiter({ estimate: { earliest_seconds: 86_400, latest_seconds: 172_800 } });
    serve({ ...groupPage([], true), "GET explain": { body: { ...explanation, request } } });
    show(tab);
    const steps = within(await screen.findByRole("list", { name: "Timeline" })).getAllByRole("listitem");
    expect(steps.map((step) => step.textContent)).toEqual([expect.stringContaining("waiting since"), "now, 1 m 4 s", "start in 1 d – 2 d"]);
    expect(steps[1]?.getAttribute("aria-current")).toBe("step");
  });

  it.each([null, "warehouse"])("says of a task that has ended what has been, group %s", async (pool) => {
    const sentence = "it has ended: success; in slot group 'warehouse' it waited 247 s, was let in by its turn and held its slots for 2 s";
    serve({ ...groupPage([], true), "GET explain": { body: { checks: [], name: "", pool, request: null, sentence } } });
    show(tab);
    expect((await screen.findByRole("heading", { level: 2 })).textContent).toBe(`I${sentence.slice(1)}`);
    expect(screen.queryByText("Every limit, checked now")).toBeNull();
    expect(screen.queryByTestId("reason")).toBeNull();
  });

  it("answers for a task of no group", async () => {
    serve({ "GET explain": { body: { checks: [], name: "", pool: null, request: null, sentence: "it has ended: success" } } });
    show(tab);
    expect((await screen.findByRole("heading", { level: 2 })).textContent).toBe("It has ended: success");
    expect(screen.queryAllByRole("button")).toEqual([]);
  });
});
