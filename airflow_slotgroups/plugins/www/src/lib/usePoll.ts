import { useCallback, useEffect, useRef, useState } from "react";

import { ApiError } from "../api/client";

export const REFRESH_MS = 2000;

export type Polled<T> = {
  /** When the data came. */
  at: number;
  data: T | undefined;
  error: ApiError | undefined;
  /** Ask now, after a change. */
  refresh: () => void;
};

/**
 * Ask again and again while the page can be seen; what was answered stays while a later question fails.
 * @param key what is asked for; another key forgets the old answer.
 */
export const usePoll = <T>(
  load: (signal: AbortSignal) => Promise<T>,
  key: string,
  interval = REFRESH_MS,
): Polled<T> => {
  const [answer, setAnswer] = useState<{ at: number; data?: T; error?: ApiError; key: string }>({ at: 0, key });
  const loader = useRef(load);
  const ask = useRef<() => void>(() => undefined);
  loader.current = load;

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let pending = new AbortController();

    const round = async () => {
      clearTimeout(timer);
      pending.abort();
      const mine = new AbortController();
      const asked = performance.now();
      pending = mine;
      try {
        const data = await loader.current(mine.signal);
        if (!mine.signal.aborted) setAnswer({ at: Date.now(), data, key });
      } catch (problem) {
        if (mine.signal.aborted) return;
        const error = problem instanceof ApiError ? problem : new ApiError(0, String(problem));
        setAnswer((old) => ({ ...(old.key === key ? old : { at: 0, key }), error }));
      }
      if (!mine.signal.aborted && document.visibilityState === "visible") {
        // An answer that takes long is not asked for all the time.
        timer = setTimeout(() => void round(), Math.max(interval, 2 * (performance.now() - asked)));
      }
    };
    const onVisibility = () => {
      if (document.visibilityState === "visible") void round();
      else clearTimeout(timer);
    };

    ask.current = () => void round();
    void round();
    document.addEventListener("visibilitychange", onVisibility);
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      clearTimeout(timer);
      pending.abort();
    };
  }, [key, interval]);

  const refresh = useCallback(() => ask.current(), []);
  const current = answer.key === key ? answer : undefined;
  return { at: current?.at ?? 0, data: current?.data, error: current?.error, refresh };
};
