/** How many waited over the last hour, as a line in a row. */
import { chakra } from "@chakra-ui/react";

import { type Group, api } from "../api/client";
import { inTurn } from "../lib/inTurn";
import { usePoll } from "../lib/usePoll";

const BUCKETS = 12;
const REFRESH_MS = 60_000;
const WIDTH = 90;
const HEIGHT = 22;

/** "0,22 90,0": the corners of the line, from left to right. */
export const corners = (values: number[]): string => {
  const most = Math.max(1, ...values);
  return values
    .map((value, at) => `${Math.round((at * WIDTH) / (values.length - 1))},${Math.round(HEIGHT - (value * HEIGHT) / most)}`)
    .join(" ");
};

export const Sparkline = ({ group }: { group: Group }) => {
  const { data } = usePoll(
    (signal) => inTurn(() => api.history(group.pool, 1, BUCKETS, signal)),
    group.pool,
    REFRESH_MS,
  );
  if (data === undefined) return null;
  const values = [...data.map((bucket) => bucket.most_waiting), group.waiting];
  const label = `waiting, last hour: ${group.waiting} now, ${Math.max(...values)} at most`;
  return (
    <chakra.svg
      aria-label={label}
      color="fg.info"
      height={`${HEIGHT}px`}
      overflow="visible"
      role="img"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={`${WIDTH}px`}
    >
      <title>{label}</title>
      <polyline fill="none" points={corners(values)} stroke="currentColor" strokeWidth={1.5} />
    </chakra.svg>
  );
};
