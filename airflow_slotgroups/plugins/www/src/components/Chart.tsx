/** Lines over time, in the colours of the theme. */
import { Box, HStack, Heading, Text } from "@chakra-ui/react";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import css from "uplot/dist/uPlot.min.css?inline";

import { axisSize, isolated } from "../lib/plot";
import { dayMonth, clock, timeZone } from "../lib/time";

export type Line = {
  /** A colour token of the theme: "running.solid". */
  color: string;
  dashed?: boolean;
  filled?: boolean;
  label: string;
  values: (number | null)[];
  /** In pixels; a wide line is seen on both sides of a thin one that is drawn over it. */
  width?: number;
};

const HEIGHT = 160;
const STYLE = "slotgroups-chart";

const addStyle = () => {
  if (document.getElementById(STYLE) !== null) return;
  const style = document.createElement("style");
  style.id = STYLE;
  style.textContent = css;
  document.head.append(style);
};

const color = (token: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--chakra-colors-${token.replace(".", "-")}`).trim() || "gray";

/** Counts changes of the theme: a canvas does not follow it by itself. */
const useTheme = (): number => {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const observer = new MutationObserver(() => setChanges((old) => old + 1));
    observer.observe(document.documentElement, { attributeFilter: ["class", "data-theme"], attributes: true });
    return () => observer.disconnect();
  }, []);
  return changes;
};

const LINE_PX = 2;

const series = (line: Line): uPlot.Series => ({
  label: line.label,
  points: {
    fill: color(line.color),
    filter: (plot, at) => isolated(plot.data[at] as Line["values"]),
    size: 2 * (line.width ?? LINE_PX) + 1,
  },
  spanGaps: false,
  stroke: color(line.color),
  width: line.dashed === true ? 1 : line.width ?? LINE_PX,
  ...(line.dashed === true ? { dash: [5, 4] } : {}),
  ...(line.filled === true ? { fill: `color-mix(in srgb, ${color(line.color)} 30%, transparent)` } : {}),
  ...(line.filled === true || line.dashed === true ? { paths: uPlot.paths.stepped?.({ align: 1 }) as uPlot.Series.PathBuilder } : {}),
});

const DAY_SECONDS = 86_400;

const tick = (at: number, times: number[], zone: string): string => {
  const days = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / DAY_SECONDS;
  const moment = new Date(at * 1000);
  return days > 1.5 ? dayMonth(moment, zone) : clock(moment, zone);
};

const axis = (): uPlot.Axis => ({
  grid: { stroke: color("border.muted"), width: 1 },
  stroke: color("fg.muted"),
  ticks: { stroke: color("border.muted"), width: 1 },
});

export const Chart = ({
  format = String,
  lines,
  summary,
  times,
  title,
}: {
  format?: (value: number) => string;
  lines: Line[];
  /** The same in words, for those who do not see it. */
  summary: string;
  times: number[];
  title: string;
}) => {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const theme = useTheme();
  const data = [times, ...lines.map((line) => line.values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    addStyle();
    const zone = timeZone();
    const made = new uPlot(
      {
        axes: [{ ...axis(), values: (_plot, splits) => splits.map((at) => tick(at, latest.current[0] as number[], zone)) }, { ...axis(), size: (_plot, labels) => axisSize(labels), values: (_plot, splits) => splits.map(format) }],
        cursor: { drag: { setScale: false } },
        height: HEIGHT,
        legend: { show: false },
        scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, (high || 0) * 1.1)] } },
        series: [{}, ...lines.map(series)],
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
        width: element.clientWidth,
      },
      latest.current,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ height: HEIGHT, width: element.clientWidth }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
    // Made anew for another theme alone; data follow below.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [theme]);
  useEffect(() => plot.current?.setData(latest.current), [data]);

  return (
    <Box borderRadius="md" borderWidth="1px" minWidth={0} p={4}>
      <HStack gap={4} mb={2} wrap="wrap">
        <Heading as="h3" size="sm">
          {title}
        </Heading>
        {lines.map((line) => (
          <HStack aria-hidden color="fg.muted" fontSize="xs" gap={1.5} key={line.label}>
            <Box bg={line.color} height="3px" width="14px" />
            {line.label}
          </HStack>
        ))}
      </HStack>
      <Box aria-label={`${title}: ${summary}`} height={`${HEIGHT}px`} ref={box} role="img" />
      <Text color="fg.muted" fontSize="xs" mt={1}>
        {summary}
      </Text>
    </Box>
  );
};
