/** What has been: slots in use, waiting times, and the requests that have ended. */
import { Badge, Flex, NativeSelect, SimpleGrid, Spinner, Stack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { type Bucket, type Ended, api } from "../api/client";
import { Chart } from "../components/Chart";
import { Empty, ErrorNotice, Framed, PAGE_SIZE, Pager, RunName, TaskName } from "../components/ui";
import { duration, moment } from "../lib/time";
import { usePoll } from "../lib/usePoll";
import { count } from "../lib/words";

const BUCKETS = 60;
const REFRESH_MS = 10_000;
const SPANS: [number, string][] = [
  [1, "last hour"],
  [6, "last 6 hours"],
  [24, "last 24 hours"],
  [168, "last 7 days"],
  [720, "last 30 days"],
];

const seconds = (iso: string): number => Date.parse(iso) / 1000;

const longest = (values: (number | null)[]): string => {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? "nobody was let in" : `${duration(Math.max(...known))} at most`;
};

const Charts = ({ buckets }: { buckets: Bucket[] }) => {
  const times = buckets.map((bucket) => seconds(bucket.start));
  const medians = buckets.map((bucket) => bucket.wait_median_seconds);
  const p95 = buckets.map((bucket) => bucket.wait_p95_seconds);
  const waiting = buckets.map((bucket) => bucket.most_waiting);
  const granted = buckets.reduce((sum, bucket) => sum + bucket.granted, 0);
  return (
    <SimpleGrid columns={{ base: 1, lg: 3 }} gap={4}>
      <Chart
        lines={[
          { color: "running.solid", filled: true, label: "most in use", values: buckets.map((bucket) => bucket.most_used) },
          {
            color: "red.solid",
            dashed: true,
            label: "size",
            values: buckets.map((bucket) => (bucket.size === null || bucket.size < 0 ? null : bucket.size)),
          },
        ]}
        summary={`${Math.max(0, ...buckets.map((bucket) => bucket.most_used))} at most, ${count(granted, "request")} let in`}
        times={times}
        title="Slots in use"
      />
      <Chart
        lines={[{ color: "fg.info", filled: true, label: "most waiting", values: waiting }]}
        summary={`${Math.max(0, ...waiting)} at most`}
        times={times}
        title="Waiters"
      />
      <Chart
        format={duration}
        lines={[
          { color: "orange.solid", label: "95 % wait less", values: p95, width: 5 },
          { color: "fg.info", label: "median", values: medians },
        ]}
        summary={`median ${longest(medians)}`}
        times={times}
        title="Waiting time"
      />
    </SimpleGrid>
  );
};

const ADMISSIONS: Record<string, string> = {
  adopted: "held before adopting",
  forced: "by force",
  outside: "outside the queue",
  queue: "in its turn",
};

const END_REASONS: Record<string, string> = {
  cleared: "cleared",
  dissolved: "group dissolved",
  ended: "its try ended",
  expired: "max_wait passed",
  gone: "task instance gone",
  left: "waited no longer",
};

const Row = ({ request }: { request: Ended }) => (
  <Table.Row>
    <Table.Cell>
      <TaskName request={request} />
    </Table.Cell>
    <Table.Cell>
      <RunName request={request} />
    </Table.Cell>
    <Table.Cell textAlign="end">{request.priority}</Table.Cell>
    <Table.Cell textAlign="end">{request.slots}</Table.Cell>
    <Table.Cell textAlign="end" whiteSpace="nowrap">
      {request.waited_seconds === null ? "–" : duration(request.waited_seconds)}
    </Table.Cell>
    <Table.Cell textAlign="end" whiteSpace="nowrap">
      {request.held_seconds === null ? "–" : duration(request.held_seconds)}
    </Table.Cell>
    <Table.Cell>
      {request.admission === null ? <Badge colorPalette="orange">never let in</Badge> : ADMISSIONS[request.admission]}
    </Table.Cell>
    <Table.Cell>
      {request.end_reason === null ? "" : END_REASONS[request.end_reason]}
      {request.comment === null ? null : <Text color="fg.muted">“{request.comment}”</Text>}
    </Table.Cell>
    <Table.Cell whiteSpace="nowrap">{moment(request.ended_at)}</Table.Cell>
  </Table.Row>
);

const HEADERS: [string, boolean][] = [
  ["Task", false],
  ["Run", false],
  ["Priority", true],
  ["Slots", true],
  ["Waited", true],
  ["Held", true],
  ["Let in", false],
  ["End", false],
  ["Ended at", false],
];

export const History = ({ onPage, page, pool }: { onPage: (page: number) => void; page: number; pool: string }) => {
  const [hours, setHours] = useState(1);
  const past = usePoll((signal) => api.history(pool, hours, BUCKETS, signal), `${pool}|${hours}`, REFRESH_MS);
  const ended = usePoll(
    (signal) => api.ended(pool, { hours, limit: PAGE_SIZE, offset: page * PAGE_SIZE }, signal),
    `${pool}|${hours}|${page}`,
    REFRESH_MS,
  );
  return (
    <Stack gap={4}>
      <Flex>
        <NativeSelect.Root size="sm" width="180px">
          <NativeSelect.Field
            aria-label="Stretch of time"
            onChange={(event) => {
              setHours(Number(event.target.value));
              onPage(0);
            }}
            value={hours}
          >
            {SPANS.map(([number, label]) => (
              <option key={number} value={number}>
                {label}
              </option>
            ))}
          </NativeSelect.Field>
          <NativeSelect.Indicator />
        </NativeSelect.Root>
      </Flex>
      <ErrorNotice error={past.error ?? ended.error} />
      {past.data === undefined ? <Spinner aria-label="Loading" /> : <Charts buckets={past.data} />}
      {ended.data === undefined ? null : ended.data.requests.length === 0 ? (
        <Empty title="No request has ended in this time">Choose a longer one above.</Empty>
      ) : (
        <>
          <Framed>
            <Table.Root aria-label="Ended requests" size="sm">
              <Table.Header>
                <Table.Row>
                  {HEADERS.map(([label, end]) => (
                    <Table.ColumnHeader key={label} textAlign={end ? "end" : undefined}>
                      {label}
                    </Table.ColumnHeader>
                  ))}
                </Table.Row>
              </Table.Header>
              <Table.Body>
                {ended.data.requests.map((request) => (
                  <Row key={request.request_id} request={request} />
                ))}
              </Table.Body>
            </Table.Root>
          </Framed>
          <Pager onPage={onPage} page={page} total={ended.data.total} />
        </>
      )}
    </Stack>
  );
};
