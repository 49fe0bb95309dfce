/** The DAGs and tasks that name the pool of a group. */
import { Badge, Spinner, Stack, Table, Text } from "@chakra-ui/react";

import type { WhereUsed as Found } from "../api/client";
import { Empty, ErrorNotice, Framed, To } from "../components/ui";
import type { Polled } from "../lib/usePoll";
import { count } from "../lib/words";

const DagRow = ({ dag }: { dag: Found["dags"][number] }) => (
  <Table.Row>
    <Table.Cell verticalAlign="top">
      <To to={`/dags/${encodeURIComponent(dag.dag_id)}`}>{dag.dag_id}</To>{" "}
      {dag.paused ? <Badge colorPalette="orange">paused</Badge> : null}
    </Table.Cell>
    <Table.Cell>
      {dag.tasks.map((task) => (
        <Text key={task.task_id + String(task.outside)}>
          {task.task_id}
          <Text as="span" color="fg.muted">
            {task.slots > 1 ? ` · ${task.slots} slots` : ""}
          </Text>
          {task.outside ? (
            <Text as="span" color="fg.warning">
              {" · names the running pool, so it runs outside the queue"}
            </Text>
          ) : null}
        </Text>
      ))}
    </Table.Cell>
  </Table.Row>
);

export const WhereUsed = ({ pool, used: { data, error } }: { pool: string; used: Polled<Found> }) => {
  if (data === undefined) return error === undefined ? <Spinner aria-label="Loading" /> : <ErrorNotice error={error} />;
  const hidden =
    data.hidden > 0 ? (
      <Text color="fg.muted" fontSize="sm">
        {count(data.hidden, "more DAG")} that you may not see.
      </Text>
    ) : null;
  if (data.dags.length === 0) {
    return (
      <Stack gap={3}>
        <Empty title="No DAG names this pool">
          Give a task <code>pool=&quot;{pool}&quot;</code>, or a DAG or task group by its default_args.
        </Empty>
        {hidden}
      </Stack>
    );
  }
  return (
    <Stack gap={3}>
      <Framed>
        <Table.Root aria-label="Where used" size="sm">
          <Table.Header>
            <Table.Row>
              <Table.ColumnHeader>DAG</Table.ColumnHeader>
              <Table.ColumnHeader>Tasks</Table.ColumnHeader>
            </Table.Row>
          </Table.Header>
          <Table.Body>
            {data.dags.map((dag) => (
              <DagRow dag={dag} key={dag.dag_id} />
            ))}
          </Table.Body>
        </Table.Root>
      </Framed>
      {hidden}
    </Stack>
  );
};
