/** A server made of answers, and pages shown as Airflow shows them. */
import { ChakraProvider, defaultSystem } from "@chakra-ui/react";
import { render } from "@testing-library/react";
import type { ReactNode } from "react";
import { MemoryRouter } from "react-router-dom";
import { vi } from "vitest";

import type { Group, Me, SlotRequest } from "../src/api/client";
import { Announcer } from "../src/components/Announcer";

export const group = (changes: Partial<Group> = {}): Group => ({
  ageing_seconds: 0,
  description: "",
  free: 0,
  holding: 4,
  max_passes: 10,
  mode: "active",
  next_in: null,
  notice: null,
  oldest_wait_since: null,
  overdraft: 0,
  pool: "warehouse",
  problems: [],
  slots: 4,
  strategy: "strict",
  use: { deferred: 0, outside: 0, queued: 0, running: 4, sections: 0, starting: 0, total: 4 },
  waiting: 0,
  ...changes,
});

export const waiter = (changes: Partial<SlotRequest> = {}): SlotRequest => ({
  can_act: true,
  dag_id: "load_orders",
  estimate: null,
  kind: "task",
  map_index: -1,
  notice: null,
  position: 1,
  priority: 10,
  reason: "needs 1, 0 free",
  reason_code: "no_room",
  request_id: 1,
  run_id: "morning",
  seconds: 64,
  since: "2026-11-30T02:00:00Z",
  slots: 1,
  state: "waiting",
  task_id: "copy",
  try_number: 1,
  ...changes,
});

export const me = (may: boolean): Me => ({
  can_change: may,
  can_create: may,
  can_delete: may,
  can_read: true,
  name: "jane",
});

export type Asked = { body: unknown; method: string; path: string; query: URLSearchParams };
export type Answer = { body?: unknown; status?: number };

/** Answers by "GET groups"; a path of Airflow's own API begins with /. Everything that was asked is returned. */
export const serve = (answers: Record<string, Answer | ((asked: Asked) => Answer)>): Asked[] => {
  const all: Asked[] = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const { pathname, searchParams } = new URL(url);
    const path = decodeURIComponent(pathname.replace("/slotgroups/api/v1/", ""));
    const asked = {
      body: typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : undefined,
      method: init.method ?? "GET",
      path,
      query: searchParams,
    };
    all.push(asked);
    const found = answers[`${asked.method} ${path}`];
    const { body = {}, status = 200 } = (typeof found === "function" ? found(asked) : found) ?? { status: 404 };
    return Promise.resolve(new Response(status === 204 ? null : JSON.stringify(body), { status }));
  });
  return all;
};

export const show = (page: ReactNode, at = "/plugin/slot-groups") =>
  render(
    <ChakraProvider value={defaultSystem}>
      <MemoryRouter initialEntries={[at]}>
        <Announcer>{page}</Announcer>
      </MemoryRouter>
    </ChakraProvider>,
  );
