/** Addresses inside Airflow's page, for its router. */
import type { SlotRequest } from "../api/client";

export const PAGE = "/plugin/slot-groups";
export const TAB = "plugin/slot-group";

const part = encodeURIComponent;

export const groupLink = (pool: string, request?: number): string =>
  `${PAGE}?group=${part(pool)}${request === undefined ? "" : `&request=${request}`}`;

export const runLink = (dag: string, run: string): string => `/dags/${part(dag)}/runs/${part(run)}`;

export type TaskOf = Pick<SlotRequest, "dag_id" | "map_index" | "run_id" | "task_id">;

export const taskLink = (request: TaskOf): string | null => {
  const { dag_id, map_index, run_id, task_id } = request;
  if (dag_id === null || run_id === null || task_id === null) return null;
  const mapped = map_index !== null && map_index >= 0 ? `/mapped/${map_index}` : "";
  return `${runLink(dag_id, run_id)}/tasks/${part(task_id)}${mapped}`;
};
