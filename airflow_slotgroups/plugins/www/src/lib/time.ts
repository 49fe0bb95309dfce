/** Durations and moments, as people read them. */

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/** The two biggest units: "12 m 4 s", "2 h 10 m". */
export const duration = (seconds: number): string => {
  const whole = Math.max(0, Math.floor(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first === -1) return "0 s";
  let rest = whole;
  const parts: string[] = [];
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number > 0) parts.push(`${number} ${unit}`);
  }
  return parts.join(" ");
};

export const secondsSince = (moment: string, now = Date.now()): number => (now - Date.parse(moment)) / 1000;

const own = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The time zone that the user chose in Airflow's menu, else the browser's. */
export const timeZone = (): string => {
  try {
    const chosen: unknown = JSON.parse(localStorage.getItem("timezone") ?? "null");
    if (typeof chosen !== "string" || chosen === "") return own();
    new Intl.DateTimeFormat("en", { timeZone: chosen });
    return chosen;
  } catch {
    return own();
  }
};

/** A moment in the user's time zone, as Airflow writes it: "2026-11-30 02:00:00". */
export const moment = (iso: string, zone = timeZone()): string =>
  new Intl.DateTimeFormat("sv-SE", {
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    month: "2-digit",
    second: "2-digit",
    timeZone: zone,
    year: "numeric",
  }).format(new Date(iso));
