/** What people did to a group and its requests, the last action first. */
import { Button, Spinner, Stack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { type Audit, api } from "../api/client";
import { Empty, ErrorNotice, Framed, To } from "../components/ui";
import { runLink } from "../lib/host";
import { moment } from "../lib/time";
import { usePoll } from "../lib/usePoll";
import { change } from "../lib/words";

const REFRESH_MS = 10_000;
const LIMIT = 100;

type Entry = Audit["entries"][number];

const Target = ({ entry }: { entry: Entry }) => {
  if (entry.dag_id === null || entry.task_id === null || entry.run_id === null) return <>the group</>;
  const mapped = entry.map_index !== null && entry.map_index >= 0 ? ` [${entry.map_index}]` : "";
  return (
    <To to={`${runLink(entry.dag_id, entry.run_id)}/tasks/${encodeURIComponent(entry.task_id)}`}>
      {`${entry.dag_id} › ${entry.task_id}${mapped}`}
    </To>
  );
};

export const AuditLog = ({ pool }: { pool: string }) => {
  const [before, setBefore] = useState<number>();
  const { data, error } = usePoll(
    (signal) => api.audit(pool, { before, limit: LIMIT }, signal),
    `${pool}|${before ?? ""}`,
    REFRESH_MS,
  );
  if (data === undefined) return error === undefined ? <Spinner aria-label="Loading" /> : <ErrorNotice error={error} />;
  if (data.entries.length === 0) {
    return <Empty title="Nobody has done anything here yet">Every action of a person on this group is listed here.</Empty>;
  }
  const next = data.next_before;
  return (
    <Stack gap={3}>
      <ErrorNotice error={error} />
      <Framed>
        <Table.Root aria-label="Audit" size="sm">
          <Table.Header>
            <Table.Row>
              {["When", "Who", "Action", "On", "Change", "Comment"].map((label) => (
                <Table.ColumnHeader key={label}>{label}</Table.ColumnHeader>
              ))}
            </Table.Row>
          </Table.Header>
          <Table.Body>
            {data.entries.map((entry) => (
              <Table.Row key={entry.id}>
                <Table.Cell whiteSpace="nowrap">{entry.at === null ? "" : moment(entry.at)}</Table.Cell>
                <Table.Cell>{entry.who}</Table.Cell>
                <Table.Cell>{entry.action}</Table.Cell>
                <Table.Cell>
                  <Target entry={entry} />
                </Table.Cell>
                <Table.Cell>{change(entry)}</Table.Cell>
                <Table.Cell>
                  <Text color="fg.muted">{entry.comment}</Text>
                </Table.Cell>
              </Table.Row>
            ))}
          </Table.Body>
        </Table.Root>
      </Framed>
      <Text>
        {before === undefined ? null : (
          <Button onClick={() => setBefore(undefined)} size="xs" variant="outline">
            Newest
          </Button>
        )}{" "}
        {next === null ? null : (
          <Button onClick={() => setBefore(next)} size="xs" variant="outline">
            Older
          </Button>
        )}
      </Text>
    </Stack>
  );
};
