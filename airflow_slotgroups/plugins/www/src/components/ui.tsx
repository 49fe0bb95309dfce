/** Small parts that several pages share. */
import { Alert, Badge, Box, Button, Flex, HStack, Link, Table, Text } from "@chakra-ui/react";
import { useEffect, useState, type ReactNode } from "react";
import { Link as RouterLink } from "react-router-dom";

import type { ApiError, Group, Problem, SlotRequest } from "../api/client";
import { type TaskOf, runLink, taskLink } from "../lib/host";
import { duration } from "../lib/time";
import { taskName } from "../lib/words";

export const To = ({ children, to, ...rest }: { children: ReactNode; fontWeight?: string; to: string }) => (
  <Link asChild color="fg.info" {...rest}>
    <RouterLink to={to}>{children}</RouterLink>
  </Link>
);

export const TaskName = ({ request }: { request: TaskOf & { kind: SlotRequest["kind"] } }) => {
  const link = taskLink(request);
  const section = request.kind === "section" ? " (section)" : "";
  if (link === null) return <Text as="span" color="fg.muted">{taskName(request)}</Text>;
  return (
    <>
      <To to={link}>{taskName(request)}</To>
      {section}
    </>
  );
};

export const RunName = ({ request }: { request: TaskOf }) =>
  request.dag_id === null || request.run_id === null ? null : (
    <To to={runLink(request.dag_id, request.run_id)}>{request.run_id}</To>
  );

const MODES: Record<Group["mode"], { palette: string; text: string }> = {
  active: { palette: "green", text: "active" },
  bypass: { palette: "red", text: "bypass: no limit" },
  dissolving: { palette: "gray", text: "dissolving" },
  paused: { palette: "orange", text: "paused" },
};

export const ModeBadge = ({ mode }: { mode: Group["mode"] }) => (
  <Badge colorPalette={MODES[mode].palette} variant="subtle">
    {MODES[mode].text}
  </Badge>
);

export const Notice = ({
  action,
  children,
  status,
  title,
}: {
  action?: ReactNode;
  children?: ReactNode;
  status: "error" | "info" | "success" | "warning";
  title: string;
}) => (
  <Alert.Root role={status === "error" ? "alert" : undefined} size="sm" status={status}>
    <Alert.Indicator />
    <Alert.Content>
      <Alert.Title>{title}</Alert.Title>
      {children === undefined || children === null ? null : <Alert.Description>{children}</Alert.Description>}
    </Alert.Content>
    {action}
  </Alert.Root>
);

export const ErrorNotice = ({ error }: { error: ApiError | undefined }) =>
  error === undefined ? null : (
    <Notice status="error" title={error.message}>
      {error.remedy}
    </Notice>
  );

export const Problems = ({ problems }: { problems: Problem[] }) => (
  <>
    {problems.map((problem) => (
      <Notice key={problem.code + problem.where} status="warning" title={problem.text}>
        {problem.remedy}
      </Notice>
    ))}
  </>
);

/** How old is what is shown. Not for screen readers: it changes every second. */
export const Refreshed = ({ at }: { at: number }) => {
  const [now, setNow] = useState(at);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <Text aria-hidden color="fg.muted" fontSize="sm" fontVariantNumeric="tabular-nums">
      refreshed {duration((now - at) / 1000)} ago
    </Text>
  );
};

/** What stands where nothing is, with what to do next. */
export const Empty = ({ action, children, title }: { action?: ReactNode; children?: ReactNode; title: string }) => (
  <Box borderRadius="md" borderWidth={1} px={6} py={10} textAlign="center">
    <Text fontWeight="semibold">{title}</Text>
    {children === undefined ? null : (
      <Text color="fg.muted" mt={1}>
        {children}
      </Text>
    )}
    {action === undefined ? null : <Flex gap={2} justify="center" mt={4}>{action}</Flex>}
  </Box>
);

// Some systems hide the bars of what can be scrolled: nobody looks for columns that he does not know of.
const SCROLL_BAR = {
  "&::-webkit-scrollbar": { height: "10px" },
  "&::-webkit-scrollbar-thumb": { bg: "fg.subtle", borderRadius: "full" },
};

/** A table in a frame, which scrolls sideways where it must. */
export const Framed = ({ children }: { children: ReactNode }) => (
  <Table.ScrollArea borderRadius="md" borderWidth="1px" css={{ ...SCROLL_BAR, "& tbody tr:last-of-type td": { borderBottomWidth: 0 }, whiteSpace: "normal" }}>
    {children}
  </Table.ScrollArea>
);

export const PAGE_SIZE = 100;

export const Pager = ({
  onPage,
  page,
  total,
}: {
  onPage: (page: number) => void;
  page: number;
  total: number;
}) => {
  const last = Math.max(0, Math.ceil(total / PAGE_SIZE) - 1);
  if (last === 0) return null;
  const from = page * PAGE_SIZE + 1;
  return (
    <HStack aria-label="Pages" as="nav" gap={2} justify="flex-end" mt={3}>
      <Text color="fg.muted" fontSize="sm">
        {from.toLocaleString("en")} – {Math.min(total, from + PAGE_SIZE - 1).toLocaleString("en")} of{" "}
        {total.toLocaleString("en")}
      </Text>
      <Button disabled={page === 0} onClick={() => onPage(0)} size="xs" variant="outline">
        First
      </Button>
      <Button disabled={page === 0} onClick={() => onPage(page - 1)} size="xs" variant="outline">
        Previous
      </Button>
      <Button disabled={page >= last} onClick={() => onPage(page + 1)} size="xs" variant="outline">
        Next
      </Button>
      <Button disabled={page >= last} onClick={() => onPage(last)} size="xs" variant="outline">
        Last
      </Button>
    </HStack>
  );
};
