/** What was done, for eyes and for screen readers. */
import { Box, CloseButton } from "@chakra-ui/react";
import { createContext, useCallback, useContext, useEffect, useState, type ReactNode } from "react";

import type { Said } from "../lib/words";
import { Notice } from "./ui";

const Context = createContext<(said: Said) => void>(() => undefined);

export const useAnnounce = () => useContext(Context);

const STAYS_MS = 8000;

export const Announcer = ({ children }: { children: ReactNode }) => {
  const [said, setSaid] = useState<{ at: number; what: Said }>();
  const announce = useCallback((what: Said) => setSaid({ at: Date.now(), what }), []);
  useEffect(() => {
    const timer = setTimeout(() => setSaid(undefined), STAYS_MS);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <Context.Provider value={announce}>
      {children}
      <Box
        aria-live="polite"
        bottom={4}
        maxWidth="480px"
        position="fixed"
        right={4}
        role="status"
        zIndex="toast"
      >
        {said === undefined ? null : (
          <Notice
            action={<CloseButton aria-label="Close message" onClick={() => setSaid(undefined)} size="xs" />}
            status={typeof said.what === "string" ? "success" : "warning"}
            title={typeof said.what === "string" ? said.what : said.what.warning}
          />
        )}
      </Box>
    </Context.Provider>
  );
};
