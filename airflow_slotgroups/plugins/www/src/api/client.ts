/** Our REST API, in the types of its OpenAPI document. */
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Group = Schemas["GroupOut"];
export type Groups = Schemas["GroupsOut"];
export type GroupSettings = Schemas["GroupChangeIn"];
export type Use = Schemas["UseOut"];
export type SlotRequest = Schemas["RequestOut"];
export type Requests = Schemas["RequestsOut"];
export type Problem = Schemas["ProblemOut"];
export type Health = Schemas["HealthOut"];
export type Me = Schemas["MeOut"];
export type Explanation = Schemas["ExplanationOut"];
export type Changed = Schemas["ChangedOut"];
export type Audit = Schemas["AuditPageOut"];
export type Bucket = Schemas["BucketOut"];
export type Coordinator = Schemas["CoordinatorOut"];
export type Ended = Schemas["EndedOut"];
export type EndedPage = Schemas["EndedPageOut"];
export type ImportDone = Schemas["ImportOut"]["done"];
export type WhereUsed = Schemas["WhereUsedOut"];

export const GROUP_PERMISSIONS_NONE: Me = {
  can_change: false,
  can_create: false,
  can_delete: false,
  can_read: false,
  name: "",
};

type Method = "DELETE" | "GET" | "PATCH" | "POST";
type Query = Record<string, number | string | undefined>;

/** A refusal: what is wrong, and what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly remedy: string | null = null,
    readonly canRetry = false,
  ) {
    super(message);
  }
}

/** The host's page says where Airflow lives, whatever the path prefix is. */
const address = (path: string, query: Query = {}): string => {
  const url = new URL(path, document.baseURI);
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(key, String(value));
  }
  return url.href;
};

const toSignIn = () => {
  location.replace(address("api/v2/auth/login", { next: location.href }));
};

const refusal = async (answer: Response): Promise<ApiError> => {
  const body: unknown = await answer.json().catch(() => null);
  const { can_retry, detail, remedy } = (body ?? {}) as Record<string, unknown>;
  const text = Array.isArray(detail)
    ? detail.map((one: { loc?: unknown[]; msg?: string }) => `${String(one.loc?.at(-1) ?? "")}: ${one.msg ?? ""}`).join("; ")
    : typeof detail === "string"
      ? detail
      : `${answer.status} ${answer.statusText}`;
  return new ApiError(answer.status, text, typeof remedy === "string" ? remedy : null, can_retry === true);
};

const send = async <T>(url: string, method: Method, body?: unknown, signal?: AbortSignal): Promise<T> => {
  let answer: Response;
  try {
    answer = await fetch(url, {
      body: body === undefined ? null : JSON.stringify(body),
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      method,
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "Airflow does not answer", "it is asked again every two seconds", true);
  }
  if (answer.status === 401) toSignIn();
  if (!answer.ok) throw await refusal(answer);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
};

const API = "slotgroups/api/v1/";
const named = (route: string, pool: string) => `${API}${route}/${encodeURIComponent(pool)}`;

const get = <T>(path: string, query: Query, signal?: AbortSignal) =>
  send<T>(address(path, query), "GET", undefined, signal);

export type Page = { limit: number; offset: number; request_id?: number; search?: string };
/** The mode that a verb leads to. */
export type ModeVerb = "bypass" | "pause" | "resume";
export type RequestVerb = "force-start" | "suspend" | "unsuspend";

export const api = {
  act: (verb: RequestVerb, pool: string, request_ids: number[], comment: string | null) =>
    send<Changed>(address(named(verb, pool)), "POST", { comment, request_ids }),
  adopt: (pool: string, settings: GroupSettings) =>
    send<Group>(address(named("adopt", pool)), "POST", settings),
  audit: (pool: string, query: Query, signal?: AbortSignal) => get<Audit>(named("audit", pool), query, signal),
  change: (pool: string, settings: GroupSettings) =>
    send<Group>(address(named("groups", pool)), "PATCH", settings),
  coordinators: async (signal?: AbortSignal) =>
    (await get<Schemas["CoordinatorsOut"]>(`${API}coordinators`, {}, signal)).coordinators,
  create: (pool: string, settings: GroupSettings) =>
    send<Group>(address(`${API}groups`), "POST", { ...settings, pool }),
  delete: (pool: string, comment: string | null) =>
    send<void>(address(named("groups", pool), { comment: comment ?? undefined }), "DELETE"),
  dissolve: (pool: string, end_sections: boolean, comment: string | null) =>
    send<void>(address(named("dissolve", pool)), "POST", { comment, end_sections }),
  ended: (pool: string, query: Query, signal?: AbortSignal) => get<EndedPage>(named("ended", pool), query, signal),
  explain: (query: Query, signal?: AbortSignal) => get<Explanation>(`${API}explain`, query, signal),
  export: () => get<Record<string, Record<string, unknown>>>(`${API}export`, {}),
  group: (pool: string, signal?: AbortSignal) => get<Group>(named("groups", pool), {}, signal),
  groups: (signal?: AbortSignal) => get<Groups>(`${API}groups`, {}, signal),
  health: (signal?: AbortSignal) => get<Health>(`${API}health`, {}, signal),
  history: async (pool: string, hours: number, buckets: number, signal?: AbortSignal) =>
    (await get<Schemas["HistoryOut"]>(named("history", pool), { buckets, hours }, signal)).buckets,
  holders: (pool: string, page: Page, signal?: AbortSignal) =>
    get<Requests>(named("holders", pool), page, signal),
  import: async (groups: Record<string, unknown>, adopt: boolean, source: string, comment: string | null) =>
    (await send<Schemas["ImportOut"]>(address(`${API}import`), "POST", { adopt, comment, groups, source })).done,
  me: (pool?: string) => get<Me>(`${API}me`, { pool }),
  mode: (verb: ModeVerb, pool: string, comment: string | null) =>
    send<Group>(address(named(verb, pool)), "POST", { comment }),
  /** Names of all pools, from Airflow's own API. */
  pools: async (): Promise<string[]> => {
    const found: string[] = [];
    for (;;) {
      const page = await get<{ pools: { name: string }[]; total_entries: number }>("api/v2/pools", {
        limit: 100,
        offset: found.length,
      }, undefined);
      found.push(...page.pools.map((pool) => pool.name));
      if (page.pools.length === 0 || found.length >= page.total_entries) return found;
    }
  },
  prioritize: (pool: string, request_ids: number[], priority: number | null, comment: string | null) =>
    send<Changed>(address(named("prioritize", pool)), "POST", { comment, priority, request_ids }),
  waiters: (pool: string, page: Page, signal?: AbortSignal) =>
    get<Requests>(named("waiters", pool), page, signal),
  whereUsed: (pool: string, signal?: AbortSignal) => get<WhereUsed>(named("where-used", pool), {}, signal),
};
