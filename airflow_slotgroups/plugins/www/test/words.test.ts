import { describe, expect, it } from "vitest";

import { corners } from "../src/components/Sparkline";
import { draftOf, faultsOf, ordinary, settingsOf } from "../src/components/SettingsDialog";
import { stepsOf } from "../src/components/Timeline";
import { segments } from "../src/components/UseBar";
import { asFile, fromFile } from "../src/lib/groupFile";
import { groupLink, taskLink } from "../src/lib/host";
import { axisSize, isolated } from "../src/lib/plot";
import { between, duration, moment, timeZone } from "../src/lib/time";
import {
  bypassWords,
  change,
  doneWords,
  forceWords,
  forcedWords,
  importWords,
  resumeWords,
  sentence,
  sizeWords,
  taskName,
} from "../src/lib/words";
import { group, waiter } from "./world";

describe("durations and moments", () => {
  it.each([
    [0, "0 s"],
    [59.9, "59 s"],
    [724, "12 m 4 s"],
    [3600, "1 h"],
    [7800, "2 h 10 m"],
    [90_061, "1 d 1 h"],
    [-5, "0 s"],
  ])("%d s", (seconds, text) => expect(duration(seconds)).toBe(text));

  it("takes the zone that the user chose in Airflow", () => {
    localStorage.setItem("timezone", '"Asia/Tokyo"');
    expect(timeZone()).toBe("Asia/Tokyo");
    expect(moment("2026-11-30T20:00:00Z")).toBe("2026-12-01 05:00:00");
  });

  it("takes the browser's for one that is none", () => {
    localStorage.setItem("timezone", '"Nowhere/At All"');
    expect(timeZone()).toBe(Intl.DateTimeFormat().resolvedOptions().timeZone);
  });

  it("says about when one starts", () => {
    const now = Date.parse("2026-11-30T10:00:00Z");
    expect(between(1260, 1440, now, "UTC")).toBe("10:21 – 10:24");
    expect(between(0, 30, now, "UTC")).toBe("within a minute");
    expect(between(86_400, 172_800, now, "UTC")).toBe("in 1 d – 2 d");
  });
});

describe("what an action will do", () => {
  it("says the use after a forced start, and the overdraft", () => {
    const words = forceWords(group(), [waiter()]).join(" ");
    expect(words).toContain("use will be 5 of 4");
    expect(words).toContain("overdraft of 1 slot,");
  });

  it("adds the slots of all that are selected", () => {
    const words = forceWords(group(), [waiter({ slots: 2 }), waiter({ request_id: 2 })]).join(" ");
    expect(words).toContain("2 requests are let in at once, past the queue: use will be 7 of 4");
  });

  it("names what a forced start does not pass", () => {
    const paused = waiter({ reason: "the DAG is paused", reason_code: "dag_paused" });
    expect(forceWords(group(), [paused]).join(" ")).toContain("does not pass still holds load_orders › copy: the DAG is paused");
  });

  it("says that a forced start goes past a pause too", () => {
    expect(forceWords(group({ mode: "paused" }), [waiter()])[0]).toContain("let in at once, past the queue and the pause: use");
  });

  it("warns of what still holds a request that was forced", () => {
    const free = waiter({ reason: "is let in now", reason_code: "next_in" });
    const held = waiter({ reason: "DAG 'load' is paused", reason_code: "dag_paused" });
    expect(forcedWords("load › copy", [free])).toBe("load › copy started by force");
    expect(forcedWords("load › copy", [held])).toEqual({ warning: "load › copy forced; still held: DAG 'load' is paused" });
    expect(forcedWords("3 requests", [free, held, held])).toEqual({
      warning: "3 requests forced; 2 still held: DAG 'load' is paused",
    });
  });

  it("knows no overdraft without a limit", () => {
    expect(forceWords(group({ slots: -1 }), [waiter()])).toEqual([
      "load_orders › copy is let in at once, past the queue: use will be 5, no limit.",
    ]);
  });

  it("says what a smaller size means", () => {
    expect(sizeWords(group(), 2)[0]).toContain("Use will be 4 of 2: an overdraft of 2 slots");
    expect(sizeWords(group(), 8)).toEqual([]);
  });

  it("says what the modes mean", () => {
    expect(bypassWords(group({ waiting: 3 }))[0]).toContain("up to 3 waiters now");
    expect(bypassWords(group({ waiting: 3 }))[0]).toContain("Use may be 7 of 4, or more");
    expect(bypassWords(group())[0]).toContain("nobody waits now. Use is 4 of 4.");
    expect(resumeWords(group({ slots: 6, waiting: 3 }))[0]).toContain("3 wait, 2 slots are free");
    expect(resumeWords(group({ slots: 2 }))[0]).toContain("the overdraft is paid back");
  });
});

describe("names", () => {
  it("names tasks, mapped ones too, and none that may not be seen", () => {
    expect(taskName(waiter({ map_index: 3 }))).toBe("load_orders › copy [3]");
    expect(taskName(waiter({ dag_id: null }))).toBe("a task of a DAG that you may not see");
    expect(taskLink(waiter({ dag_id: null }))).toBeNull();
  });

  it("links to names with any sign in them", () => {
    expect(groupLink("a/b ☕&c", 7)).toBe("/plugin/slot-groups?group=a%2Fb%20%E2%98%95%26c&request=7");
    expect(taskLink(waiter({ map_index: 2, run_id: "manual__2026-11-30T02:00:00+00:00" }))).toBe(
      "/dags/load_orders/runs/manual__2026-11-30T02%3A00%3A00%2B00%3A00/tasks/copy/mapped/2",
    );
  });

  it("leaves names of Airflow as they are", () => {
    expect(sentence("max_active_tasks is not set")).toBe("max_active_tasks is not set");
    expect(sentence("needs 1, 0 free")).toBe("Needs 1, 0 free");
  });
});

describe("the bar", () => {
  const slots = (of: Parameters<typeof group>[0]) => segments(group(of)).map((part) => [part.label, part.slots]);
  const use = { deferred: 0, outside: 0, queued: 1, running: 4, sections: 1, starting: 0, total: 6 };

  it("ends with what is free", () => {
    expect(slots({ slots: 8, use })).toEqual([
      ["running", 4],
      ["granted, starting", 1],
      ["deferred, holding", 1],
      ["free", 2],
    ]);
  });

  it("cuts at the size, and shows the rest as over it", () => {
    expect(slots({ slots: 5, use })).toEqual([
      ["running", 4],
      ["granted, starting", 1],
      ["over capacity", 1],
    ]);
  });

  it("has nothing free and nothing over without a limit", () => {
    expect(slots({ mode: "bypass", slots: 1, use }).map(([label]) => label)).toEqual([
      "running",
      "granted, starting",
      "deferred, holding",
    ]);
  });
});

describe("settings", () => {
  it("sends of a changed group what differs alone", () => {
    const old = group();
    expect(settingsOf({ ...draftOf(old), slots: "8" }, "edit", old)).toEqual({ slots: 8 });
    expect(settingsOf(draftOf(old), "edit", old)).toEqual({});
  });

  it("keeps size and description of an adopted pool", () => {
    expect(settingsOf({ ...draftOf(), pool: "p" }, "adopt")).toEqual({ ageing_seconds: 0, strategy: "strict" });
  });

  it("finds what can not be", () => {
    const draft = { ...draftOf(), ageing: "x", passes: "0", slots: "1.5", strategy: "backfill" as const };
    expect(Object.keys(faultsOf(draft, "create")).sort()).toEqual(["ageing", "passes", "pool", "slots"]);
    expect(faultsOf({ ...draftOf(), pool: "p", unlimited: true }, "create")).toEqual({});
  });

  it("offers pools that are ordinary", () => {
    expect(ordinary(["default_pool", "w", "w.running", "slotgroups.unlimited", "x.running"], ["w"])).toEqual([
      "default_pool",
      "x.running",
    ]);
  });
});

describe("a file of groups", () => {
  it("is in the order of the CLI", () => {
    const text = asFile({ b: { slots: 2, description: "ü" }, a: { slots: -1 } });
    expect(text).toBe('{\n    "a": {\n        "slots": -1\n    },\n    "b": {\n        "description": "ü",\n        "slots": 2\n    }\n}\n');
    expect(fromFile(text)).toEqual({ a: { slots: -1 }, b: { description: "ü", slots: 2 } });
  });

  it.each(["{", "[]", "{}", "3", "null"])("is none: %s", (text) => expect(() => fromFile(text)).toThrow(/no JSON|No group/));

  it("does to the groups that there are what it says", () => {
    const entries = { api: { slots: 3 }, big: { slots: 9 }, free: { slots: -1 }, odd: 7, same: { description: null, slots: 4 }, warehouse: { mode: "paused", slots: 2 } };
    const lines = importWords(entries, [group(), group({ pool: "same" })], ["big", "same", "warehouse"], false);
    expect(lines).toEqual([
      "api is made: 3 slots",
      "big is an ordinary pool, and refused unless it is adopted",
      "free is made: no limit",
      "odd is made: no size",
      "same stays as it is",
      "warehouse is changed: mode active → paused, slots 4 → 2 (use will be 4 of 2)",
      "Groups that the file does not name stay. All of it is done, or nothing.",
    ]);
    expect(importWords({ big: { slots: 9 } }, [], ["big"], true)[0]).toBe("big is adopted: 9 slots");
  });

  it("names the first of many", () => {
    const many = Object.fromEntries(Array.from({ length: 12 }, (_, number) => [`g${number}`, { slots: 1 }]));
    expect(importWords(many, [], [], false).at(-2)).toBe("And 2 more groups.");
  });

  it("has been imported", () => {
    expect(doneWords({ a: "made", b: "changed", c: "made" })).toBe("2 made, 1 changed");
  });
});

describe("the timeline of a request", () => {
  it("has a waiter's start if that is known", () => {
    expect(stepsOf(waiter()).map((step) => step.when)).toEqual(["past", "now"]);
    const steps = stepsOf(waiter({ estimate: { earliest_seconds: 0, latest_seconds: 30 } }));
    expect(steps.map((step) => step.text)).toEqual([`waiting since ${moment(waiter().since)}`, "now, 1 m 4 s", "start within a minute"]);
  });

  it("begins with the hold of a holder", () => {
    const [first] = stepsOf(waiter({ position: null, state: "granted" }));
    expect(first?.text).toContain("holding since");
  });
});

describe("a chart", () => {
  it("has room for its widest label", () => {
    expect(axisSize(["0 s", "12 m 40 s"])).toBeGreaterThan(80);
    expect(axisSize(["0", "5"])).toBe(40);
    expect(axisSize(null)).toBe(40);
  });

  it("shows values by a dot to which no line leads", () => {
    expect(isolated([0, null, 3, null, 4, 5, null, 6])).toEqual([0, 2, 7]);
    expect(isolated([null, null])).toEqual([]);
  });
});

describe("the line of the last hour", () => {
  it("is high where many waited", () => expect(corners([0, 5, 10])).toBe("0,22 45,11 90,0"));
  it("is at the bottom where nobody did", () => expect(corners([0, 0])).toBe("0,22 90,22"));
});

describe("the audit log", () => {
  it("shows what differs", () => {
    expect(change({ new: { forced: false, priority: 90 }, old: { forced: false, priority: 10 } })).toBe("priority 10 → 90");
    expect(change({ new: { max_passes: 10, slots: 4 }, old: null })).toBe("max passes 10, slots 4");
    expect(change({ new: null, old: null })).toBe("");
  });
});
