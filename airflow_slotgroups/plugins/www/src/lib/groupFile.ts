/** Groups as a JSON file: what `airflow slotgroups export` writes, and what the page reads of one. */

export type Fields = Record<string, unknown>;

export const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const sorted = <T>(object: Record<string, T>): [string, T][] =>
  Object.entries(object).sort(([one], [other]) => (one < other ? -1 : 1));

/** In the order and form of the CLI, so that two exports can be compared. */
export const asFile = (entries: Record<string, Fields>): string => {
  const ordered = sorted(entries).map(([name, entry]) => [name, Object.fromEntries(sorted(entry))]);
  return `${JSON.stringify(Object.fromEntries(ordered), null, 4)}\n`;
};

/** What can not be read is thrown, in words for people; what is wrong with an entry, the server says. */
export const fromFile = (text: string): Fields => {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is no JSON: ${(error as Error).message}`);
  }
  if (!isObject(found) || Object.keys(found).length === 0) {
    throw new Error('No group is named in it. An export has this form: {"name of the group": {"slots": 3}}');
  }
  return found;
};

export const download = (name: string, text: string): void => {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
};
