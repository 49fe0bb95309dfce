/** What has been of a request, where it is, and what is ahead. */
import { Box, Flex, Text } from "@chakra-ui/react";

import type { SlotRequest } from "../api/client";
import { between, duration, moment } from "../lib/time";

type Step = { text: string; when: "ahead" | "now" | "past" };

/** What is known of it: a waiter's start often is not. */
export const stepsOf = ({ estimate, seconds, since, state }: SlotRequest): Step[] => {
  const waits = state === "waiting";
  const steps: Step[] = [
    { text: `${waits ? "waiting" : "holding"} since ${moment(since)}`, when: "past" },
    { text: `now, ${duration(seconds)}`, when: "now" },
  ];
  if (!waits || !estimate) return steps;
  return [...steps, { text: `start ${between(estimate.earliest_seconds, estimate.latest_seconds)}`, when: "ahead" }];
};

const COLORS = { ahead: "bg.emphasized", now: "info.solid", past: "green.solid" };

export const Timeline = ({ request }: { request: SlotRequest }) => {
  const steps = stepsOf(request);
  return (
    // Without its role, some screen readers take a list without numbers for none.
    <Flex aria-label="Timeline" as="ol" fontSize="sm" listStyleType="none" mt={4} role="list">
      {steps.map(({ text, when }, at) => (
        <Box aria-current={when === "now" ? "step" : undefined} as="li" flexGrow={at < steps.length - 1 ? 1 : 0} key={when}>
          <Flex align="center" aria-hidden>
            <Box bg={COLORS[when]} borderRadius="full" boxSize="12px" flexShrink={0} />
            {at < steps.length - 1 ? <Box bg={COLORS[steps[at + 1]?.when === "ahead" ? "ahead" : "past"]} flexGrow={1} height="3px" /> : null}
          </Flex>
          <Text color={when === "ahead" ? "fg.muted" : undefined} fontWeight={when === "now" ? "semibold" : undefined} mt={1} pe={4}>
            {text}
          </Text>
        </Box>
      ))}
    </Flex>
  );
};
