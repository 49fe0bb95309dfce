/** Sentences that say what is, and what an action will do. */
import type { Audit, Group, ImportDone, SlotRequest } from "../api/client";
import { type Fields, isObject } from "./groupFile";

export const UNLIMITED = -1;

export const count = (number: number, one: string, many = `${one}s`): string =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** What is said of an action that was done: a text, or a warning where it was done in part. */
export type Said = string | { warning: string };

/** With a capital, unless it begins with a name of Airflow's. */
export const sentence = (text: string): string =>
  /^\w*_/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);

export const limitless = (group: Pick<Group, "mode" | "slots">): boolean =>
  group.slots === UNLIMITED || group.mode === "bypass";

/** "5 of 4", or "5, no limit". */
export const useOf = (used: number, slots: number): string =>
  slots === UNLIMITED ? `${used}, no limit` : `${used} of ${slots}`;

export const taskName = (request: Pick<SlotRequest, "dag_id" | "map_index" | "task_id">): string => {
  if (request.dag_id === null) return "a task of a DAG that you may not see";
  const mapped = request.map_index !== null && request.map_index >= 0 ? ` [${request.map_index}]` : "";
  return `${request.dag_id} › ${request.task_id ?? ""}${mapped}`;
};

export const namesOf = (requests: SlotRequest[]): string =>
  requests.length === 1 && requests[0] ? taskName(requests[0]) : count(requests.length, "request");

/** Reasons that a forced start does not pass. */
const STAYS = new Set([
  "dag_paused",
  "max_active_tasks",
  "max_active_tis_per_dag",
  "max_active_tis_per_dagrun",
  "not_waiting",
  "pool_missing",
  "run_not_running",
  "wrong_team",
]);

export const forceWords = (group: Group, requests: SlotRequest[]): string[] => {
  const slots = requests.reduce((sum, request) => sum + request.slots, 0);
  const used = group.use.total + slots;
  const over = group.slots === UNLIMITED ? 0 : Math.max(0, used - group.slots);
  const held = requests.filter((request) => STAYS.has(request.reason_code));
  const past = group.mode === "paused" ? "the queue and the pause" : "the queue";
  const lines = [
    `${namesOf(requests)} ${requests.length === 1 ? "is" : "are"} let in at once, past ${past}: use will be ${useOf(used, group.slots)}.`,
  ];
  if (over > 0 && group.mode !== "bypass") {
    lines.push(`That is an overdraft of ${count(over, "slot")}, paid back before anybody else is let in.`);
  }
  for (const request of held.slice(0, 3)) {
    lines.push(`What a forced start does not pass still holds ${taskName(request)}: ${request.reason ?? ""}.`);
  }
  return lines;
};

const MOST_REASONS = 3;

/** What came of a forced start; a warning where something holds one of them still. */
export const forcedWords = (name: string, now: SlotRequest[]): Said => {
  const held = now.filter((request) => request.state === "waiting" && request.reason_code !== "next_in");
  if (held.length === 0) return `${name} started by force`;
  const reasons = [...new Set(held.map((request) => request.reason ?? request.reason_code))];
  const more = reasons.length > MOST_REASONS ? "; …" : "";
  const some = held.length < now.length ? `${held.length} ` : "";
  return { warning: `${name} forced; ${some}still held: ${reasons.slice(0, MOST_REASONS).join("; ")}${more}` };
};

export const topWords = (requests: SlotRequest[]): string[] => [
  `${namesOf(requests)} ${requests.length === 1 ? "goes" : "go"} before all others, with a priority above theirs.`,
];

export const suspendWords = (requests: SlotRequest[]): string[] => [
  `${namesOf(requests)} ${requests.length === 1 ? "is passed over until it is unsuspended, and keeps its place" : "are passed over until they are unsuspended, and keep their places"}.`,
];

export const unsuspendWords = (requests: SlotRequest[]): string[] => [
  `${namesOf(requests)} ${requests.length === 1 ? "takes part again, in its old place" : "take part again, in their old places"}.`,
];

export const pauseWords = (group: Group): string[] => [
  `Nobody is let in any more. ${count(group.holding, "holder finishes", "holders finish")}, ${count(group.waiting, "waiter keeps its place", "waiters keep their places")}.`,
];

export const resumeWords = (group: Group): string[] => {
  const room = group.slots === UNLIMITED ? null : Math.max(0, group.slots - group.use.total);
  const over = group.slots === UNLIMITED ? 0 : Math.max(0, group.use.total - group.slots);
  if (over > 0) {
    return [`The size counts again: use is ${useOf(group.use.total, group.slots)}, the overdraft is paid back before anybody is let in.`];
  }
  return [
    `Waiters are let in again: ${group.waiting} wait, ${room === null ? "there is no limit" : `${count(room, "slot is", "slots are")} free`}.`,
  ];
};

export const bypassWords = (group: Group): string[] => {
  // Which of them something else holds is not known here; each takes one slot at least.
  const used = group.use.total + group.waiting;
  const now =
    group.waiting > 0
      ? `up to ${count(group.waiting, "waiter")} now; those that are suspended or held by a limit of Airflow's stay. Use may be ${useOf(used, group.slots)}, or more where tasks take several slots.`
      : `nobody waits now. Use is ${useOf(used, group.slots)}.`;
  return [
    `The limit is lifted, and everybody is let in: ${now}`,
    "The size counts again after Resume.",
  ];
};

export const sizeWords = (group: Group, slots: number): string[] => {
  if (slots === UNLIMITED) return ["There will be no limit."];
  const over = group.use.total - slots;
  return over > 0
    ? [`Use will be ${useOf(group.use.total, slots)}: an overdraft of ${count(over, "slot")}, paid back before anybody is let in. Nobody is stopped.`]
    : [];
};

export const dissolveWords = (group: Group): string[] => [
  `${group.pool} becomes an ordinary pool again, with ${group.slots === UNLIMITED ? "no limit" : count(group.slots, "slot")}. ${count(group.waiting, "waiter then waits", "waiters then wait")} in Airflow's own order, ${count(group.holding, "holder goes", "holders go")} on.`,
];

const told = (value: unknown): string =>
  value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value);

/** "slots 4 → 8": what differs, or all of it where there is one side only. */
export const change = ({ new: now, old }: Pick<Audit["entries"][number], "new" | "old">): string => {
  const keys = Object.keys({ ...old, ...now });
  return keys
    .filter((key) => told(old?.[key]) !== told(now?.[key]))
    .map((key) => {
      const values = [...(old ? [told(old[key])] : []), ...(now ? [told(now[key])] : [])];
      return `${key.replaceAll("_", " ")} ${values.join(" → ")}`;
    })
    .join(", ");
};

const newWords = (name: string, { slots }: Fields, ordinary: boolean, adopt: boolean): string => {
  if (ordinary && !adopt) return `${name} is an ordinary pool, and refused unless it is adopted`;
  const size = slots === UNLIMITED ? "no limit" : typeof slots === "number" ? count(slots, "slot") : "no size";
  return `${name} is ${ordinary ? "adopted" : "made"}: ${size}`;
};

const changeWords = (group: Group, entry: Fields): string => {
  const { slots } = entry;
  // Of what a file may say, the page knows a part.
  const shared = Object.keys(entry).filter((key) => key in group && entry[key] !== null);
  const old = Object.fromEntries(shared.map((key) => [key, group[key as keyof Group]]));
  const changed = change({ new: Object.fromEntries(shared.map((key) => [key, entry[key]])), old });
  const over = typeof slots === "number" && slots !== UNLIMITED && slots !== group.slots && slots < group.use.total;
  if (changed === "") return `${group.pool} stays as it is`;
  return `${group.pool} is changed: ${changed}${over ? ` (use will be ${useOf(group.use.total, slots)})` : ""}`;
};

const MOST_ENTRIES = 10;

/**
 * What the entries of a file will do to the groups that there are.
 * @param pools names of all pools.
 */
export const importWords = (entries: Fields, groups: Group[], pools: string[], adopt: boolean): string[] => {
  const names = Object.keys(entries).sort();
  const lines = names.slice(0, MOST_ENTRIES).map((name) => {
    const found = entries[name];
    const entry = isObject(found) ? found : {};
    const group = groups.find((one) => one.pool === name);
    return group === undefined ? newWords(name, entry, pools.includes(name), adopt) : changeWords(group, entry);
  });
  const more = names.length - lines.length;
  return [
    ...lines,
    ...(more > 0 ? [`And ${count(more, "more group")}.`] : []),
    "Groups that the file does not name stay. All of it is done, or nothing.",
  ];
};

/** "2 made, 1 changed". */
export const doneWords = (done: ImportDone): string => {
  const all = Object.values(done);
  return (["made", "adopted", "changed", "unchanged"] as const)
    .map((what) => [all.filter((one) => one === what).length, what] as const)
    .filter(([number]) => number > 0)
    .map(([number, what]) => `${number} ${what}`)
    .join(", ");
};
