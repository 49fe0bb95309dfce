/** Who holds slots, the longest first. */
import { Spinner, Stack } from "@chakra-ui/react";

import { type Group, type SlotRequest, api } from "../api/client";
import { RequestTable } from "../components/RequestTable";
import { Empty, ErrorNotice, PAGE_SIZE, Pager } from "../components/ui";
import { usePoll } from "../lib/usePoll";

const nothing = () => undefined;
const NONE: ReadonlyMap<number, SlotRequest> = new Map();

export const Holders = ({
  group,
  marked,
  onPage,
  page,
}: {
  group: Group;
  marked?: number | undefined;
  onPage: (page: number) => void;
  page: number;
}) => {
  const { data, error } = usePoll(
    (signal) => api.holders(group.pool, { limit: PAGE_SIZE, offset: page * PAGE_SIZE }, signal),
    `${group.pool}|${page}`,
  );
  return (
    <Stack gap={3}>
      <ErrorNotice error={error} />
      {data === undefined ? (
        error === undefined ? <Spinner aria-label="Loading" /> : null
      ) : data.requests.length === 0 ? (
        <Empty title="Nobody holds slots">
          {group.waiting === 0
            ? "All of them are free."
            : group.mode === "paused"
              ? "The group is paused: Resume lets its waiters in."
              : "The queue says of each waiter why it is not let in."}
        </Empty>
      ) : (
        <>
          <RequestTable
            label="Holders"
            marked={marked}
            offers={false}
            onLever={nothing}
            onSelect={nothing}
            onSelectAll={nothing}
            requests={data.requests}
            selected={NONE}
            waiting={false}
          />
          <Pager onPage={onPage} page={page} total={data.total} />
        </>
      )}
    </Stack>
  );
};
