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

export const dayMonth = (at: Date, zone: string): string =>
  new Intl.DateTimeFormat("sv-SE", { day: "2-digit", month: "2-digit", timeZone: zone }).format(at);

export const clock = (at: Date, zone: string): string =>
  new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", timeZone: zone }).format(at);

const FAR_SECONDS = 20 * 3600;

/** Between which moments: "10:21 – 10:24"; how long from now, where a time of the day would say too little. */
export const between = (earliest: number, latest: number, now = Date.now(), zone = timeZone()): string => {
  if (latest < 60) return "within a minute";
  if (latest > FAR_SECONDS) return `in ${duration(earliest)} – ${duration(latest)}`;
  const [from, to] = [earliest, latest].map((seconds) => clock(new Date(now + seconds * 1000), zone));
  return from === to ? `${from}` : `${from} – ${to}`;
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
