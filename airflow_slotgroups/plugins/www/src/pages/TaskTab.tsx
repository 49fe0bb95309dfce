/** Where one task instance stands, and why it does not run. */
import { Box, Button, HStack, Heading, SimpleGrid, Spinner, Stack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { type Explanation, type Group, type SlotRequest, api } from "../api/client";
import { useAnnounce } from "../components/Announcer";
import { type Lever, RequestDialog } from "../components/RequestDialog";
import { Timeline } from "../components/Timeline";
import { UseBar } from "../components/UseBar";
import { ErrorNotice, ModeBadge, Notice, TaskName, To } from "../components/ui";
import { groupLink } from "../lib/host";
import { duration } from "../lib/time";
import { useMe } from "../lib/useMe";
import { usePoll } from "../lib/usePoll";
import { count, sentence, useOf } from "../lib/words";

const HOLDERS = 10;

/** What is told beside the limits. */
const TOLD = new Set(["slot_group_ahead", "slot_group_holders"]);

/** Nothing is checked of a task instance that has ended: its sentence says what has been. */
const hasEnded = (explanation: Explanation): boolean => explanation.checks.length === 0;

const Title = ({ explanation, group }: { explanation: Explanation; group: Group | undefined }) => {
  const { pool, request } = explanation;
  if (pool === null || pool === undefined || hasEnded(explanation)) return <>{sentence(explanation.sentence)}</>;
  const link = <To to={groupLink(pool, request?.request_id)}>{pool}</To>;
  if (request === null || request === undefined) return <>Waits for {link}, far behind</>;
  if (request.state === "waiting") {
    return (
      <>
        Waits for {count(request.slots, "slot")} of {link}: place {request.position}
        {group === undefined ? "" : ` of ${Math.max(group.waiting, request.position ?? 0)}`}
      </>
    );
  }
  return (
    <>
      Holds {count(request.slots, "slot")} of {link}
    </>
  );
};

const Where = ({
  explanation,
  group,
  offers,
  onLever,
}: {
  explanation: Explanation;
  group: Group | undefined;
  offers: boolean;
  onLever: (lever: Lever) => void;
}) => {
  const ended = hasEnded(explanation);
  const request = ended ? undefined : explanation.request ?? undefined;
  const waits = request?.state === "waiting";
  const shown = waits ? request.reason : request?.reason ?? (explanation.pool && !ended ? explanation.sentence : null);
  return (
    <Box borderRadius="md" borderWidth={1} p={4}>
      <Heading as="h2" size="lg">
        <Title explanation={explanation} group={group} />
      </Heading>
      {shown ? (
        <Text color="fg.muted" data-testid="reason" mt={1}>
          {sentence(shown)}
          {waits && explanation.name !== "slot_group" && explanation.name !== "" ? `. First of all: ${explanation.sentence}` : ""}
        </Text>
      ) : null}
      {request === undefined ? null : (
        <>
          <Text fontSize="sm" mt={2}>
            Priority {request.priority}, try {request.try_number}
          </Text>
          <Timeline request={request} />
        </>
      )}
      {group === undefined ? null : (
        <HStack gap={3} mt={3} wrap="wrap">
          <UseBar group={group} />
          <Text fontSize="sm">{useOf(group.use.total, group.slots)} in use</Text>
          {group.mode === "active" ? null : <ModeBadge mode={group.mode} />}
        </HStack>
      )}
      {waits && request.can_act && offers && group !== undefined ? (
        <HStack gap={2} mt={4} wrap="wrap">
          <Button colorPalette="brand" onClick={() => onLever("force-start")} size="sm">
            Force start…
          </Button>
          <Button onClick={() => onLever("priority")} size="sm" variant="outline">
            Priority {request.priority} ✎
          </Button>
          <Button onClick={() => onLever("to-top")} size="sm" variant="outline">
            To top
          </Button>
          {request.reason_code === "suspended" ? null : (
            <Button onClick={() => onLever("suspend")} size="sm" variant="outline">
              Suspend
            </Button>
          )}
          {request.reason_code === "suspended" ? (
            <Button onClick={() => onLever("unsuspend")} size="sm" variant="outline">
              Unsuspend
            </Button>
          ) : null}
        </HStack>
      ) : null}
    </Box>
  );
};

const Limits = ({ explanation }: { explanation: Explanation }) => (
  <Box borderRadius="md" borderWidth={1} p={4}>
    <Heading as="h3" mb={2} size="sm">
      Every limit, checked now
    </Heading>
    <Table.Root aria-label="Every limit, checked now" size="sm">
      <Table.Body>
        {explanation.checks.map((check) => (
          <Table.Row key={check.name + check.text}>
            <Table.Cell width="1%">
              <Text color={check.holds ? "fg.error" : "fg.success"}>
                <span aria-hidden>{check.holds ? "✗" : TOLD.has(check.name) ? "·" : "✓"}</span>
                <Box as="span" srOnly>
                  {check.holds ? "holds it" : "does not hold it"}
                </Box>
              </Text>
            </Table.Cell>
            <Table.Cell>{sentence(check.text)}</Table.Cell>
          </Table.Row>
        ))}
      </Table.Body>
    </Table.Root>
  </Box>
);

const HoldersNow = ({ group }: { group: Group }) => {
  const { data } = usePoll((signal) => api.holders(group.pool, { limit: HOLDERS, offset: 0 }, signal), group.pool);
  return (
    <Box borderRadius="md" borderWidth={1} p={4}>
      <Heading as="h3" mb={2} size="sm">
        Holds the slots now
      </Heading>
      {data === undefined ? (
        <Spinner aria-label="Loading" size="sm" />
      ) : data.requests.length === 0 ? (
        <Text color="fg.muted">Nobody</Text>
      ) : (
        <Table.Root aria-label="Holds the slots now" size="sm">
          <Table.Body>
            {data.requests.map((request) => (
              <Table.Row key={request.request_id}>
                <Table.Cell>
                  <TaskName request={request} />
                </Table.Cell>
                <Table.Cell textAlign="end">{duration(request.seconds)}</Table.Cell>
                <Table.Cell textAlign="end">{count(request.slots, "slot")}</Table.Cell>
              </Table.Row>
            ))}
          </Table.Body>
        </Table.Root>
      )}
      {data !== undefined && data.total > HOLDERS ? (
        <Text color="fg.muted" fontSize="sm" mt={2}>
          {data.total - HOLDERS} more in <To to={`${groupLink(group.pool)}&tab=holders`}>{group.pool}</To>
        </Text>
      ) : null}
    </Box>
  );
};

export type TaskTabProps = { dagId?: string; mapIndex?: string; runId?: string; taskId?: string };

export const TaskTab = ({ dagId = "", mapIndex = "-1", runId = "", taskId = "" }: TaskTabProps) => {
  const [pull, setPull] = useState<{ lever: Lever; request: SlotRequest }>();
  const announce = useAnnounce();
  const key = [dagId, runId, taskId, mapIndex].join("|");
  const { data, error, refresh } = usePoll(async (signal) => {
    const explanation = await api.explain({ dag_id: dagId, map_index: mapIndex, run_id: runId, task_id: taskId }, signal);
    // Whoever may see the task may not see its pool: the answer is worth more without that than none.
    const group = explanation.pool ? await api.group(explanation.pool, signal).catch(() => undefined) : undefined;
    return { explanation, group };
  }, key);

  const me = useMe(data?.explanation.pool ?? undefined);
  if (data === undefined) {
    return error === undefined ? <Spinner aria-label="Loading" /> : <ErrorNotice error={error} />;
  }
  const { explanation, group } = data;
  return (
    <Stack gap={4}>
      <ErrorNotice error={error} />
      <Where
        explanation={explanation}
        group={group}
        offers={me.can_change && group?.mode !== "dissolving"}
        onLever={(lever) => {
          if (explanation.request) setPull({ lever, request: explanation.request });
        }}
      />
      {group?.problems.map((problem) => (
        <Notice key={problem.code} status="warning" title={problem.text}>
          {problem.remedy}
        </Notice>
      ))}
      <SimpleGrid columns={{ base: 1, lg: group === undefined || hasEnded(explanation) ? 1 : 2 }} gap={4}>
        {group === undefined ? null : <HoldersNow group={group} />}
        {hasEnded(explanation) ? null : <Limits explanation={explanation} />}
      </SimpleGrid>
      {pull === undefined || group === undefined ? null : (
        <RequestDialog
          group={group}
          onClose={() => setPull(undefined)}
          onDone={(said) => {
            announce(said);
            refresh();
          }}
          pull={{ lever: pull.lever, requests: [pull.request] }}
        />
      )}
    </Stack>
  );
};
