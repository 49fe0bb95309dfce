/** What a chart is drawn by. */

const CHARACTER_PX = 7;
const TICK_PX = 20;
const LEAST_PX = 40;

/** Room for the widest label of an axis: "12 m 40 s" takes more than "15". */
export const axisSize = (labels: string[] | null): number =>
  Math.max(LEAST_PX, TICK_PX + CHARACTER_PX * Math.max(0, ...(labels ?? []).map((label) => label.length)));

const isNone = (value: number | null | undefined): boolean => value === null || value === undefined;

/** Places of values without a neighbour: no line leads to them. */
export const isolated = (values: (number | null)[]): number[] =>
  values.flatMap((value, at) => (!isNone(value) && isNone(values[at - 1]) && isNone(values[at + 1]) ? [at] : []));
