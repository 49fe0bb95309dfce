/** What was done, for eyes and for screen readers. */
import { Box, CloseButton } from "@chakra-ui/react";
import { createContext, useCallback, useContext, useEffect, useState, type ReactNode } from "react";

import { Notice } from "./ui";

const Context = createContext<(text: string) => void>(() => undefined);

export const useAnnounce = () => useContext(Context);

const STAYS_MS = 8000;

export const Announcer = ({ children }: { children: ReactNode }) => {
  const [said, setSaid] = useState<{ at: number; text: string }>();
  const announce = useCallback((text: string) => setSaid({ at: Date.now(), text }), []);
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
            status="success"
            title={said.text}
          />
        )}
      </Box>
    </Context.Provider>
  );
};
