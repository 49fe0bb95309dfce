import { Box, type BoxProps, Flex, HStack, Text } from "@chakra-ui/react";

import type { Group, Use } from "../api/client";
import { UNLIMITED, limitless, useOf } from "../lib/words";

type Part = { color: string; label: string; slots: number };

const STRIPES =
  "repeating-linear-gradient(45deg, var(--chakra-colors-red-solid) 0 4px, var(--chakra-colors-red-muted) 4px 8px)";

const parts = (use: Use): Part[] => [
  { color: "running.solid", label: "running", slots: use.running },
  { color: "lime.solid", label: "granted, starting", slots: use.queued + use.starting },
  { color: "deferred.solid", label: "deferred, holding", slots: use.deferred + use.sections },
  { color: "orange.solid", label: "outside the queue", slots: use.outside },
];

/** The parts of use that fit into the size, then what is over it, then what is free. */
export const segments = (group: Group): Part[] => {
  const size = limitless(group) ? group.use.total : group.slots;
  let room = size;
  const within = parts(group.use).map((part) => {
    const slots = Math.min(part.slots, room);
    room -= slots;
    return { ...part, slots };
  });
  return [
    ...within,
    { color: "over", label: "over capacity", slots: Math.max(0, group.use.total - size) },
    { color: "free", label: "free", slots: room },
  ].filter((part) => part.slots > 0);
};

// Quiet beside what is in use, with an outline that stands out from the ground in both themes.
const FREE = { bg: "border.emphasized", boxShadow: "inset 0 0 0 1px var(--chakra-colors-fg-subtle)" };

const fill = (color: string) =>
  color === "over" ? { backgroundImage: STRIPES } : color === "free" ? FREE : { bg: color };

export const UseBar = ({ group, width = "230px" }: { group: Group; width?: BoxProps["width"] }) => {
  const shown = segments(group);
  const label = `${useOf(group.use.total, group.slots)} in use: ${shown.map((part) => `${part.slots} ${part.label}`).join(", ") || "nothing"}`;
  return (
    <Flex
      aria-label={label}
      {...FREE}
      borderRadius="sm"
      height="16px"
      maxWidth="100%"
      overflow="hidden"
      role="img"
      title={label}
      width={width}
    >
      {shown.map((part) => (
        <Box flexBasis={0} flexGrow={part.slots} key={part.label} {...fill(part.color)} />
      ))}
    </Flex>
  );
};

export const Legend = () => (
  <HStack aria-hidden color="fg.muted" flexWrap="wrap" fontSize="xs" gap={4}>
    {[
      ...parts({ deferred: 0, outside: 0, queued: 0, running: 0, sections: 0, starting: 0, total: 0 }),
      { color: "over", label: "over capacity" },
      { color: "free", label: "free" },
    ].map((part) => (
      <HStack gap={1.5} key={part.label}>
        <Box borderRadius="xs" boxSize="10px" {...fill(part.color)} />
        {part.label}
      </HStack>
    ))}
  </HStack>
);

export const UseText = ({ group }: { group: Group }) => (
  <Text as="span" color={group.overdraft > 0 ? "fg.error" : undefined} fontVariantNumeric="tabular-nums">
    {group.use.total} / {group.slots === UNLIMITED ? "∞" : group.slots}
  </Text>
);
