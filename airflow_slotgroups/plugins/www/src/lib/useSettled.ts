import { useEffect } from "react";
import { useLocation, useNavigate } from "react-router-dom";

const settled = new Set<string>();

/**
 * The host shows a component that it has just loaded by a wrapper, and by itself whenever it renders again: React
 * takes that for another one, and all state is lost. So let the host render again at once, before there is any.
 */
export const useSettled = (component: string): void => {
  const navigate = useNavigate();
  const location = useLocation();
  useEffect(() => {
    if (settled.has(component)) return;
    settled.add(component);
    void navigate(location, { replace: true, state: location.state as unknown });
    // Once for each component.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
};
