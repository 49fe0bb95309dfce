/** One group: its use, its queue, its holders, its past. */
import { Box, Button, Flex, HStack, Heading, Spinner, Stack, Tabs, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { useNavigate, useSearchParams } from "react-router-dom";

import { type Group, type Groups, type Me, api } from "../api/client";
import { useAnnounce } from "../components/Announcer";
import { type GroupAction, GroupDialog, LABELS, actionsOf } from "../components/GroupDialog";
import { Legend, UseBar } from "../components/UseBar";
import { Empty, ErrorNotice, ModeBadge, Notice, PAGE_SIZE, Problems, Refreshed, To } from "../components/ui";
import { PAGE } from "../lib/host";
import { duration } from "../lib/time";
import { useMe } from "../lib/useMe";
import { usePoll } from "../lib/usePoll";
import { type Said, count, sentence, useOf } from "../lib/words";
import { AuditLog } from "./AuditLog";
import { History } from "./History";
import { Holders } from "./Holders";
import { allowed } from "./Overview";
import { Queue } from "./Queue";
import { WhereUsed } from "./WhereUsed";

const USED_MS = { seen: 30_000, unseen: 300_000 };

const TABS = ["queue", "holders", "history", "used", "audit"] as const;
type Tab = (typeof TABS)[number];

/** The name is unknown, or that of an ordinary pool: the API's remedy speaks of commands. */
const NO_GROUP = new Set([404, 409]);

const settingsLine = (group: Group): string =>
  [
    group.description,
    group.strategy === "strict" ? "strict order" : `backfill, ${count(group.max_passes, "pass", "passes")} at most`,
    group.ageing_seconds > 0 ? `ageing ${duration(group.ageing_seconds)} per point` : "",
  ]
    .filter((part) => part !== "")
    .join(" · ");

const Header = ({ group, me, onPick }: { group: Group; me: Me; onPick: (action: GroupAction) => void }) => {
  return (
    <Flex align="flex-start" gap={4} justify="space-between" wrap="wrap">
      <Box>
        <HStack gap={3}>
          <Heading as="h1" size="xl">
            {group.pool}
          </Heading>
          <ModeBadge mode={group.mode} />
        </HStack>
        <Text color="fg.muted">{settingsLine(group)}</Text>
      </Box>
      <HStack gap={2} wrap="wrap">
        {actionsOf(group)
          .filter((action) => allowed(me, action))
          .map((action) => (
            <Button
              colorPalette={action === "resume" ? "brand" : undefined}
              key={action}
              onClick={() => onPick(action)}
              size="sm"
              variant={action === "resume" ? "solid" : "outline"}
            >
              {LABELS[action]}
            </Button>
          ))}
      </HStack>
    </Flex>
  );
};

const UseLine = ({ at, group }: { at: number; group: Group }) => (
  <Stack gap={2}>
    <HStack gap={4} wrap="wrap">
      <UseBar group={group} />
      <Text flexGrow={1} fontWeight="semibold">
        {useOf(group.use.total, group.slots)} in use, {group.waiting.toLocaleString("en")} waiting
        {group.overdraft > 0 ? (
          <Text as="span" color="fg.error">{`, ${count(group.overdraft, "slot")} overdraft`}</Text>
        ) : null}
      </Text>
      <Refreshed at={at} />
    </HStack>
    <Legend />
  </Stack>
);

/** Find the tab and the page on which a request stands now. */
const useRequestPlace = (pool: string, request: number | undefined, onFound: (tab: Tab, page: number) => void) => {
  const [gone, setGone] = useState(false);
  useEffect(() => {
    setGone(false);
    if (request === undefined) return undefined;
    const stop = new AbortController();
    const look = async () => {
      const only = { limit: 1, offset: 0, request_id: request };
      const waiting = await api.waiters(pool, only, stop.signal);
      const place = waiting.requests[0]?.position;
      if (place !== undefined && place !== null) return onFound("queue", Math.floor((place - 1) / PAGE_SIZE));
      const holding = await api.holders(pool, only, stop.signal);
      if (holding.requests.length > 0) return onFound("holders", 0);
      return setGone(true);
    };
    look().catch(() => undefined);
    return () => stop.abort();
    // Once for each request: whoever turns pages afterwards is let.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [pool, request]);
  return gone;
};

export const GroupPage = ({ pool }: { pool: string }) => {
  const [params, setParams] = useSearchParams();
  const navigate = useNavigate();
  const announce = useAnnounce();
  const me = useMe(pool);
  const [picked, setPicked] = useState<GroupAction>();
  const { at, data: group, error, refresh } = usePoll((signal) => api.group(pool, signal), pool);
  const alive = usePoll<Groups["coordinators_alive"]>(
    async (signal) => (await api.groups(signal)).coordinators_alive,
    "alive",
    10_000,
  );

  const asked = params.get("tab");
  const tab: Tab = TABS.find((one) => one === asked) ?? "queue";
  const page = Math.max(0, Number(params.get("page") ?? 1) - 1 || 0);
  const request = params.has("request") ? Number(params.get("request")) : undefined;

  // All DAGs are read for it: seldom, unless somebody looks at it.
  const used = usePoll((signal) => api.whereUsed(pool, signal), pool, tab === "used" ? USED_MS.seen : USED_MS.unseen);

  const show = (changes: Record<string, string | undefined>) => {
    setParams(
      (old) => {
        const now = new URLSearchParams(old);
        for (const [key, value] of Object.entries(changes)) {
          if (value === undefined) now.delete(key);
          else now.set(key, value);
        }
        return now;
      },
      { replace: true },
    );
  };
  const toPage = (to: number) => show({ page: to === 0 ? undefined : String(to + 1), request: undefined });
  const gone = useRequestPlace(pool, request, (foundTab, foundPage) =>
    show({ page: foundPage === 0 ? undefined : String(foundPage + 1), tab: foundTab === "queue" ? undefined : foundTab }),
  );

  const done = (said: Said) => {
    announce(said);
    if (picked === "delete" || picked === "dissolve") void navigate(PAGE);
    else refresh();
  };

  const crumbs = (
    <Text aria-label="Breadcrumb" as="nav" fontSize="sm">
      <To to={PAGE}>Slot Groups</To> / {pool}
    </Text>
  );
  if (group === undefined) {
    return (
      <Stack gap={4}>
        {crumbs}
        {error === undefined ? <Spinner aria-label="Loading" /> : (
          <Empty action={<To to={PAGE}>See all slot groups</To>} title={sentence(error.message)}>
            {NO_GROUP.has(error.status) ? "Choose a group in the overview, or make one or adopt a pool there." : error.remedy}
          </Empty>
        )}
      </Stack>
    );
  }
  return (
    <Stack gap={4}>
      <Box>
        {crumbs}
        <Header group={group} me={me} onPick={setPicked} />
      </Box>
      <ErrorNotice error={error} />
      {alive.data === 0 ? (
        <Notice status="error" title="No coordinator is alive: nobody is let in">
          Start the scheduler, or see its log: it starts the coordinator.
        </Notice>
      ) : null}
      <Problems problems={group.problems} />
      {group.notice === null ? null : <Notice status="info" title={group.notice} />}
      {gone ? (
        <Notice status="info" title={`Request ${request ?? ""} neither waits nor holds: it has ended`} />
      ) : null}
      <UseLine at={at} group={group} />
      <Tabs.Root
        lazyMount
        onValueChange={({ value }) => show({ page: undefined, request: undefined, tab: value === "queue" ? undefined : value })}
        size="sm"
        unmountOnExit
        value={tab}
      >
        <Tabs.List>
          <Tabs.Trigger value="queue">Queue {group.waiting.toLocaleString("en")}</Tabs.Trigger>
          <Tabs.Trigger value="holders">Holders {group.holding.toLocaleString("en")}</Tabs.Trigger>
          <Tabs.Trigger value="history">History</Tabs.Trigger>
          <Tabs.Trigger value="used">
            Where used{used.data === undefined ? "" : ` ${count(used.data.dags.length + used.data.hidden, "DAG")}`}
          </Tabs.Trigger>
          <Tabs.Trigger value="audit">Audit</Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="queue">
          <Queue group={group} marked={request} offers={me.can_change && group.mode !== "dissolving"} onChanged={refresh} onPage={toPage} page={page} />
        </Tabs.Content>
        <Tabs.Content value="holders">
          <Holders group={group} marked={request} onPage={toPage} page={page} />
        </Tabs.Content>
        <Tabs.Content value="history">
          <History onPage={toPage} page={page} pool={pool} />
        </Tabs.Content>
        <Tabs.Content value="used">
          <WhereUsed pool={pool} used={used} />
        </Tabs.Content>
        <Tabs.Content value="audit">
          <AuditLog pool={pool} />
        </Tabs.Content>
      </Tabs.Root>
      {picked === undefined ? null : (
        <GroupDialog action={picked} group={group} onClose={() => setPicked(undefined)} onDone={done} />
      )}
    </Stack>
  );
};
