/** All groups at a glance. */
import { Box, Button, Flex, HStack, Heading, IconButton, Input, Menu, Portal, Spinner, Stack, Table, Text } from "@chakra-ui/react";
import { useMemo, useState } from "react";

import { ApiError, type Coordinator, type Group, type Groups, type Me, api } from "../api/client";
import { useAnnounce } from "../components/Announcer";
import { type GroupAction, GroupDialog, LABELS, actionsOf } from "../components/GroupDialog";
import { ImportDialog } from "../components/ImportDialog";
import { type Purpose, SettingsDialog } from "../components/SettingsDialog";
import { Sparkline } from "../components/Sparkline";
import { Legend, UseBar, UseText } from "../components/UseBar";
import { Empty, Framed, ErrorNotice, ModeBadge, Notice, Problems, To } from "../components/ui";
import { asFile, download } from "../lib/groupFile";
import { groupLink } from "../lib/host";
import { duration, moment, secondsSince } from "../lib/time";
import { useMe } from "../lib/useMe";
import { usePoll } from "../lib/usePoll";
import { type Said, UNLIMITED, count } from "../lib/words";

const HEALTH_MS = 10_000;

export const allowed = (me: Me, action: GroupAction): boolean =>
  action === "delete" ? me.can_delete : me.can_change;

const NextIn = ({ group }: { group: Group }) => {
  if (group.mode === "paused") return <Text color="fg.muted">paused</Text>;
  if (group.next_in === null) return <Text color="fg.muted">–</Text>;
  const { dag_id, map_index, request_id, slots, task_id } = group.next_in;
  const mapped = map_index >= 0 ? ` [${map_index}]` : "";
  return (
    <>
      <To to={groupLink(group.pool, request_id)}>{`${dag_id} › ${task_id}${mapped}`}</To>
      {slots > 1 ? <Text as="span" color="fg.muted">{` (${slots} slots)`}</Text> : null}
    </>
  );
};

const RowMenu = ({ actions, group, onPick }: { actions: GroupAction[]; group: Group; onPick: (action: GroupAction) => void }) =>
  actions.length === 0 ? null : (
    <Menu.Root lazyMount onSelect={({ value }) => onPick(value as GroupAction)}>
      <Menu.Trigger asChild>
        <IconButton aria-label={`Actions for ${group.pool}`} size="xs" variant="ghost">
          ⋯
        </IconButton>
      </Menu.Trigger>
      <Portal>
        <Menu.Positioner>
          <Menu.Content>
            {actions.map((action) => (
              <Menu.Item key={action} value={action}>
                {LABELS[action]}
              </Menu.Item>
            ))}
          </Menu.Content>
        </Menu.Positioner>
      </Portal>
    </Menu.Root>
  );

const Row = ({ group, me, onPick }: { group: Group; me: Me; onPick: (action: GroupAction) => void }) => (
  <Table.Row data-group={group.pool}>
    <Table.Cell>
      <To fontWeight="semibold" to={groupLink(group.pool)}>
        {group.pool}
      </To>
      <Text color="fg.muted" fontSize="xs">
        {group.description}
      </Text>
      {group.problems.map((problem) => (
        <Text color="fg.warning" fontSize="xs" key={problem.code} title={problem.remedy}>
          {problem.text}
        </Text>
      ))}
      {group.notice === null ? null : (
        <Text color="fg.warning" fontSize="xs">
          {group.notice}
        </Text>
      )}
    </Table.Cell>
    <Table.Cell>
      <UseBar group={group} width={{ base: "120px", xl: "230px" }} />
    </Table.Cell>
    <Table.Cell textAlign="end" whiteSpace="nowrap">
      <UseText group={group} />
    </Table.Cell>
    <Table.Cell fontVariantNumeric="tabular-nums" textAlign="end">
      {group.waiting.toLocaleString("en")}
    </Table.Cell>
    <Table.Cell>
      <Sparkline group={group} />
    </Table.Cell>
    <Table.Cell fontVariantNumeric="tabular-nums" textAlign="end" whiteSpace="nowrap">
      {group.oldest_wait_since === null ? (
        "–"
      ) : (
        <span title={`since ${moment(group.oldest_wait_since)}`}>{duration(secondsSince(group.oldest_wait_since))}</span>
      )}
    </Table.Cell>
    <Table.Cell>
      <ModeBadge mode={group.mode} />
    </Table.Cell>
    <Table.Cell>
      <NextIn group={group} />
    </Table.Cell>
    <Table.Cell textAlign="end">
      <RowMenu actions={actionsOf(group).filter((action) => allowed(me, action))} group={group} onPick={onPick} />
    </Table.Cell>
  </Table.Row>
);

/** "last cycle 0.2 s ago, 3 ms": of the coordinator that was heard of last. */
const lastCycle = (coordinators: Coordinator[]): string => {
  const alive = coordinators.filter((one) => one.alive && one.last_cycle_at !== null);
  const last = alive.sort((a, b) => Date.parse(b.last_cycle_at ?? "") - Date.parse(a.last_cycle_at ?? ""))[0];
  if (!last?.last_cycle_at) return "";
  const took = last.cycle_seconds === null ? "" : `, took ${Math.max(1, Math.round(last.cycle_seconds * 1000))} ms`;
  return `last cycle ${duration(secondsSince(last.last_cycle_at))} ago${took}`;
};

const Summary = ({ coordinators, data }: { coordinators: Coordinator[]; data: Groups }) => {
  const cycle = lastCycle(coordinators);
  const limited = data.groups.filter((group) => group.slots !== UNLIMITED);
  const sum = (of: (group: Group) => number, groups = data.groups) => groups.reduce((total, group) => total + of(group), 0);
  const alive = data.coordinators_alive > 0;
  return (
    <HStack borderLeftColor={alive ? "green.solid" : "red.solid"} borderLeftWidth="4px" borderRadius="md" borderWidth="1px" fontSize="sm" gap={6} px={4} py={2} wrap="wrap">
      <Text>
        <Text aria-hidden as="span" color={alive ? "green.solid" : "red.solid"}>
          ●{" "}
        </Text>
        {count(data.coordinators_alive, "coordinator")} alive
      </Text>
      {cycle === "" ? null : <Text color="fg.muted">{cycle}</Text>}
      <Text color="fg.muted">{count(data.groups.length, "group")}</Text>
      <Text color="fg.muted">{sum((group) => group.waiting).toLocaleString("en")} waiting</Text>
      <Text color="fg.muted">
        {sum((group) => group.use.total, limited)} of {sum((group) => group.slots, limited)} slots in use
      </Text>
    </HStack>
  );
};

const Columns = () => (
  <Table.Header>
    <Table.Row>
      <Table.ColumnHeader>Group</Table.ColumnHeader>
      <Table.ColumnHeader>Slots</Table.ColumnHeader>
      <Table.ColumnHeader textAlign="end">Use</Table.ColumnHeader>
      <Table.ColumnHeader textAlign="end">Waiting</Table.ColumnHeader>
      <Table.ColumnHeader>Last hour</Table.ColumnHeader>
      <Table.ColumnHeader textAlign="end">Oldest wait</Table.ColumnHeader>
      <Table.ColumnHeader>Mode</Table.ColumnHeader>
      <Table.ColumnHeader>Next in</Table.ColumnHeader>
      <Table.ColumnHeader>
        <Box as="span" srOnly>
          Actions
        </Box>
      </Table.ColumnHeader>
    </Table.Row>
  </Table.Header>
);

export const Overview = () => {
  const { data, error, refresh } = usePoll(api.groups, "groups");
  const health = usePoll(api.health, "health", HEALTH_MS);
  const coordinators = usePoll(api.coordinators, "coordinators");
  const me = useMe();
  const announce = useAnnounce();
  const [search, setSearch] = useState("");
  const [making, setMaking] = useState<Purpose | "import">();
  const [failed, setFailed] = useState<ApiError>();
  const [picked, setPicked] = useState<{ action: GroupAction; group: Group }>();

  const done = (said: Said) => {
    announce(said);
    refresh();
  };
  const shown = useMemo(() => {
    const part = search.trim().toLowerCase();
    return (data?.groups ?? []).filter((group) => `${group.pool} ${group.description}`.toLowerCase().includes(part));
  }, [data, search]);
  const names = new Set(data?.groups.map((group) => group.pool));
  // Those of a group stand in its row.
  const problems = (health.data?.problems ?? []).filter((problem) => !names.has(problem.where));

  const save = async () => {
    try {
      download("slot_groups.json", asFile(await api.export()));
      setFailed(undefined);
    } catch (problem) {
      setFailed(problem instanceof ApiError ? problem : new ApiError(0, String(problem)));
    }
  };

  const makingButtons = (
    <>
      {me.can_create && me.can_change ? (
        <Button onClick={() => setMaking("import")} size="sm" variant="outline">
          Import…
        </Button>
      ) : null}
      {me.can_change ? (
        <Button onClick={() => setMaking("adopt")} size="sm" variant="outline">
          Adopt a pool
        </Button>
      ) : null}
      {me.can_create ? (
        <Button colorPalette="brand" onClick={() => setMaking("create")} size="sm">
          New group
        </Button>
      ) : null}
    </>
  );

  return (
    <Stack gap={4}>
      <Flex align="flex-end" gap={4} justify="space-between" wrap="wrap">
        <Box>
          <Heading as="h1" size="xl">
            Slot Groups
          </Heading>
          <Text color="fg.muted">Pools with a queue: who holds, who waits, why, and what is next.</Text>
        </Box>
        <HStack gap={3} wrap="wrap">
          <Input aria-label="Search groups" onChange={(event) => setSearch(event.target.value)} placeholder="Search groups" size="sm" type="search" value={search} width="160px" />
          {me.can_read ? (
            <Button onClick={() => void save()} size="sm" variant="outline">
              Export
            </Button>
          ) : null}
          {makingButtons}
        </HStack>
      </Flex>

      <ErrorNotice error={error ?? failed} />
      {data?.coordinators_alive === 0 && problems.length === 0 ? (
        <Notice status="error" title="No coordinator is alive: nobody is let in">
          Start the scheduler, or see its log: it starts the coordinator.
        </Notice>
      ) : null}
      <Problems problems={problems} />
      {data === undefined ? (
        error === undefined ? <Spinner aria-label="Loading" /> : null
      ) : data.groups.length === 0 ? (
        <Empty action={makingButtons} title="No slot groups yet">
          {me.can_create || me.can_change
            ? "Adopt a pool that tasks name already, or make a new group and name it as the pool of your tasks."
            : "Somebody who may change pools can make one."}
        </Empty>
      ) : (
        <>
          <Summary coordinators={coordinators.data ?? []} data={data} />
          {shown.length === 0 ? (
            <Empty action={<Button onClick={() => setSearch("")} size="sm" variant="outline">Show all</Button>} title={`No group matches “${search}”`} />
          ) : (
            <Framed>
              <Table.Root aria-label="Slot groups" size="sm">
                <Columns />
                <Table.Body>
                  {shown.map((group) => (
                    <Row group={group} key={group.pool} me={me} onPick={(action) => setPicked({ action, group })} />
                  ))}
                </Table.Body>
              </Table.Root>
            </Framed>
          )}
          <Legend />
        </>
      )}

      {making === "import" ? (
        <ImportDialog groups={data?.groups ?? []} onClose={() => setMaking(undefined)} onDone={done} />
      ) : null}
      {making === undefined || making === "import" ? null : (
        <SettingsDialog groups={[...names]} onClose={() => setMaking(undefined)} onDone={done} purpose={making} />
      )}
      {picked === undefined ? null : (
        <GroupDialog
          action={picked.action}
          group={data?.groups.find((group) => group.pool === picked.group.pool) ?? picked.group}
          onClose={() => setPicked(undefined)}
          onDone={done}
        />
      )}
    </Stack>
  );
};
