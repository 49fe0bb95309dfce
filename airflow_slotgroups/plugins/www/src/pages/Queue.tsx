/** Who waits, in the order in which they are let in, with the levers. */
import { Button, Flex, HStack, Input, Spinner, Stack, Text } from "@chakra-ui/react";
import { useCallback, useEffect, useState } from "react";

import { type Group, type SlotRequest, api } from "../api/client";
import { useAnnounce } from "../components/Announcer";
import { type Lever, type Pull, RequestDialog } from "../components/RequestDialog";
import { RequestTable } from "../components/RequestTable";
import { Empty, ErrorNotice, PAGE_SIZE, Pager } from "../components/ui";
import { usePoll } from "../lib/usePoll";
import { type Said, count } from "../lib/words";

const TYPING_MS = 300;

const BULK: [Lever, string][] = [
  ["force-start", "Force start"],
  ["priority", "Priority…"],
  ["to-top", "To top"],
  ["suspend", "Suspend"],
  ["unsuspend", "Unsuspend"],
];

const suspended = (request: SlotRequest): boolean => request.reason_code === "suspended";

/** Those that change something of one at least of the selected. */
const leversOn = (requests: SlotRequest[]) =>
  BULK.filter(
    ([lever]) =>
      (lever !== "suspend" || !requests.every(suspended)) && (lever !== "unsuspend" || requests.some(suspended)),
  );

/** The text that is searched for once typing rests. */
const useRested = (text: string): string => {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
};

const NobodyWaits = ({ group, onClear, search }: { group: Group; onClear: () => void; search: string }) =>
  search === "" ? (
    <Empty title="Nobody waits">
      {group.mode === "paused"
        ? "The group is paused: whoever comes waits here until Resume."
        : `Tasks that name ${group.pool} as their pool come here when no slot is free.`}
    </Empty>
  ) : (
    <Empty action={<Button onClick={onClear} size="sm" variant="outline">Show all</Button>} title={`Nobody among the first 10,000 waiters matches “${search}”`} />
  );

export const Queue = ({
  group,
  marked,
  offers,
  onChanged,
  onPage,
  page,
}: {
  group: Group;
  marked?: number | undefined;
  offers: boolean;
  onChanged: () => void;
  onPage: (page: number) => void;
  page: number;
}) => {
  const [typed, setTyped] = useState("");
  const search = useRested(typed.trim());
  const [selected, setSelected] = useState<ReadonlyMap<number, SlotRequest>>(new Map());
  const [pull, setPull] = useState<Pull>();
  const announce = useAnnounce();
  const { data, error, refresh } = usePoll(
    (signal) =>
      api.waiters(
        group.pool,
        { limit: PAGE_SIZE, offset: page * PAGE_SIZE, ...(search === "" ? {} : { search }) },
        signal,
      ),
    `${group.pool}|${page}|${search}`,
  );

  const onLever = useCallback((lever: Lever, request: SlotRequest) => setPull({ lever, requests: [request] }), []);
  const onSelect = useCallback((request: SlotRequest, on: boolean) => {
    setSelected((old) => {
      const now = new Map(old);
      if (on) now.set(request.request_id, request);
      else now.delete(request.request_id);
      return now;
    });
  }, []);
  const rows = data?.requests;
  // What a row says now counts, and one that waits no longer is not selected.
  const chosen = [...selected.values()].flatMap((old) => {
    const shown = rows?.find((row) => row.request_id === old.request_id);
    return shown === undefined && rows !== undefined && data !== undefined && data.total <= PAGE_SIZE ? [] : [shown ?? old];
  });

  const done = (said: Said) => {
    announce(said);
    setSelected(new Map());
    refresh();
    onChanged();
  };

  return (
    <Stack gap={3}>
      <Flex align="center" gap={4} minHeight="36px" wrap="wrap">
        <Input
          aria-label="Filter by DAG, task or run"
          onChange={(event) => {
            setTyped(event.target.value);
            if (page !== 0) onPage(0);
          }}
          placeholder="Filter: DAG, task, run"
          size="sm"
          type="search"
          value={typed}
          width="240px"
        />
        {chosen.length === 0 ? null : (
          <HStack aria-label="Selected requests" gap={2} role="group">
            <Text color="fg.muted" fontSize="sm">
              {count(chosen.length, "request")} selected
            </Text>
            {leversOn(chosen).map(([lever, label]) => (
              <Button key={lever} onClick={() => setPull({ lever, requests: chosen })} size="xs" variant="outline">
                {label}
              </Button>
            ))}
            <Button onClick={() => setSelected(new Map())} size="xs" variant="ghost">
              Deselect
            </Button>
          </HStack>
        )}
      </Flex>
      <ErrorNotice error={error} />
      {data === undefined ? (
        error === undefined ? <Spinner aria-label="Loading" /> : null
      ) : data.requests.length === 0 && page === 0 ? (
        <NobodyWaits group={group} onClear={() => setTyped("")} search={search} />
      ) : (
        <>
          <RequestTable
            label="Queue"
            marked={marked}
            offers={offers}
            onLever={onLever}
            onSelect={onSelect}
            onSelectAll={(on) => {
              for (const request of data.requests) if (request.can_act) onSelect(request, on);
            }}
            requests={data.requests}
            selected={selected}
            waiting
          />
          {data.hidden > 0 ? (
            <Text color="fg.muted" fontSize="sm">
              {count(data.hidden, "row")} of DAGs that you may not see: counted, not named.
            </Text>
          ) : null}
          <Pager onPage={onPage} page={page} total={data.total} />
        </>
      )}
      {pull === undefined ? null : (
        <RequestDialog group={group} onClose={() => setPull(undefined)} onDone={done} pull={pull} />
      )}
    </Stack>
  );
};
