import { useEffect, useState } from "react";

import { GROUP_PERMISSIONS_NONE, type Me, api } from "../api/client";

/** What the user may do; nothing as long as that is not known. */
export const useMe = (pool?: string): Me => {
  const [me, setMe] = useState(GROUP_PERMISSIONS_NONE);
  useEffect(() => {
    let current = true;
    api.me(pool).then(
      (answer) => current && setMe(answer),
      () => undefined,
    );
    return () => {
      current = false;
    };
  }, [pool]);
  return me;
};
