/** Waiters or holders, row by row. */
import { Box, Button, Table, Text, chakra } from "@chakra-ui/react";
import { memo, useEffect, useRef } from "react";

import type { SlotRequest } from "../api/client";
import { between, duration, moment } from "../lib/time";
import { taskName } from "../lib/words";
import type { Lever } from "./RequestDialog";
import { Framed, RunName, TaskName } from "./ui";

// One of these for each of a hundred rows: a plain one is enough.
const Tick = chakra("input", { base: { accentColor: "brand.solid", boxSize: "14px", cursor: "pointer" } });

type RowProps = {
  marked: boolean;
  offers: boolean;
  onLever: (lever: Lever, request: SlotRequest) => void;
  onSelect: (request: SlotRequest, selected: boolean) => void;
  request: SlotRequest;
  selected: boolean;
};

const Why = ({ request }: { request: SlotRequest }) => (
  <>
    <Text>{request.reason}</Text>
    {request.notice === null ? null : (
      <Text color="fg.warning" fontSize="xs">
        {request.notice}
      </Text>
    )}
  </>
);

const Row = memo(
  ({ marked, offers, onLever, onSelect, request, selected }: RowProps) => {
    const waits = request.state === "waiting";
    const acts = waits && request.can_act && offers;
    const row = useRef<HTMLTableRowElement>(null);
    useEffect(() => {
      if (marked) row.current?.scrollIntoView({ block: "center" });
    }, [marked]);
    const name = taskName(request);
    return (
      <Table.Row
        aria-current={marked ? "true" : undefined}
        bg={marked ? "bg.info" : selected ? "bg.muted" : undefined}
        data-request={request.request_id}
        ref={row}
      >
        {offers ? (
          <Table.Cell>
            {acts ? (
              <Tick
                aria-label={`Select ${name}`}
                checked={selected}
                onChange={(event) => onSelect(request, event.currentTarget.checked)}
                type="checkbox"
              />
            ) : null}
          </Table.Cell>
        ) : null}
        {waits ? (
          <Table.Cell fontVariantNumeric="tabular-nums" textAlign="end">
            {request.position}
          </Table.Cell>
        ) : null}
        <Table.Cell whiteSpace="nowrap">
          <TaskName request={request} />
        </Table.Cell>
        <Table.Cell>
          <RunName request={request} />
        </Table.Cell>
        <Table.Cell textAlign="end">
          {acts ? (
            <Button
              aria-label={`Priority ${request.priority} of ${name}, change`}
              onClick={() => onLever("priority", request)}
              size="2xs"
              variant="subtle"
            >
              {request.priority} ✎
            </Button>
          ) : (
            request.priority
          )}
        </Table.Cell>
        <Table.Cell fontVariantNumeric="tabular-nums" textAlign="end">
          {request.slots}
        </Table.Cell>
        <Table.Cell fontVariantNumeric="tabular-nums" textAlign="end" title={`since ${moment(request.since)}`} whiteSpace="nowrap">
          {duration(request.seconds)}
        </Table.Cell>
        <Table.Cell>
          <Why request={request} />
        </Table.Cell>
        {waits ? (
          <Table.Cell textAlign="end" whiteSpace="nowrap">
            {start(request) || "–"}
          </Table.Cell>
        ) : null}
        {offers ? (
          <Table.Cell textAlign="end" whiteSpace="nowrap">
            {acts ? (
              <Button
                aria-label={`Force start ${name}`}
                onClick={() => onLever("force-start", request)}
                size="2xs"
                variant="outline"
              >
                Force start
              </Button>
            ) : null}
          </Table.Cell>
        ) : null}
      </Table.Row>
    );
  },
  (old, now) =>
    old.marked === now.marked &&
    old.offers === now.offers &&
    old.selected === now.selected &&
    old.onLever === now.onLever &&
    old.onSelect === now.onSelect &&
    same(old.request, now.request),
);
Row.displayName = "RequestRow";

const start = ({ estimate }: SlotRequest): string =>
  estimate ? between(estimate.earliest_seconds, estimate.latest_seconds) : "";

/** What is shown alike is alike. */
const same = (old: SlotRequest, now: SlotRequest): boolean =>
  duration(old.seconds) === duration(now.seconds) &&
  start(old) === start(now) &&
  Object.entries(now).every(
    ([key, value]) => key === "seconds" || key === "estimate" || old[key as keyof SlotRequest] === value,
  );

export const RequestTable = ({
  label,
  marked,
  offers,
  onLever,
  onSelect,
  onSelectAll,
  requests,
  selected,
  waiting,
}: {
  label: string;
  marked?: number | undefined;
  /** Whether the user may act at all. */
  offers: boolean;
  onLever: (lever: Lever, request: SlotRequest) => void;
  onSelect: (request: SlotRequest, selected: boolean) => void;
  onSelectAll: (selected: boolean) => void;
  requests: SlotRequest[];
  selected: ReadonlyMap<number, SlotRequest>;
  waiting: boolean;
}) => {
  const eligible = requests.filter((request) => request.can_act);
  const every = eligible.length > 0 && eligible.every((request) => selected.has(request.request_id));
  return (
    <Framed>
      <Table.Root aria-label={label} size="sm">
        <Table.Header>
          <Table.Row>
            {offers ? (
              <Table.ColumnHeader width="1%">
                <Tick
                  aria-label="Select all of this page"
                  checked={every}
                  onChange={(event) => onSelectAll(event.currentTarget.checked)}
                  type="checkbox"
                />
              </Table.ColumnHeader>
            ) : null}
            {waiting ? <Table.ColumnHeader textAlign="end">#</Table.ColumnHeader> : null}
            <Table.ColumnHeader>Task</Table.ColumnHeader>
            <Table.ColumnHeader>Run</Table.ColumnHeader>
            <Table.ColumnHeader textAlign="end">Priority</Table.ColumnHeader>
            <Table.ColumnHeader textAlign="end">Slots</Table.ColumnHeader>
            <Table.ColumnHeader textAlign="end">{waiting ? "Waiting" : "Holding"}</Table.ColumnHeader>
            <Table.ColumnHeader>{waiting ? "Why it waits" : "What it does"}</Table.ColumnHeader>
            {waiting ? <Table.ColumnHeader textAlign="end">Start about</Table.ColumnHeader> : null}
            {offers ? (
              <Table.ColumnHeader>
                <Box as="span" srOnly>
                  Actions
                </Box>
              </Table.ColumnHeader>
            ) : null}
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {requests.map((request) => (
            <Row
              key={request.request_id}
              marked={request.request_id === marked}
              offers={offers}
              onLever={onLever}
              onSelect={onSelect}
              request={request}
              selected={selected.has(request.request_id)}
            />
          ))}
        </Table.Body>
      </Table.Root>
    </Framed>
  );
};
