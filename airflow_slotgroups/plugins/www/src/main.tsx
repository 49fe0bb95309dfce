/** What Airflow's page takes from us: two components, by the names under which the plugin registers them. */
import { Box } from "@chakra-ui/react";
import { useSearchParams } from "react-router-dom";

import { Announcer } from "./components/Announcer";
import { useSettled } from "./lib/useSettled";
import { GroupPage } from "./pages/GroupPage";
import { Overview } from "./pages/Overview";
import { TaskTab, type TaskTabProps } from "./pages/TaskTab";

const SlotGroups = () => {
  useSettled("Slot Groups");
  const [params] = useSearchParams();
  const pool = params.get("group");
  return (
    <Announcer>
      <Box p={4}>{pool === null ? <Overview /> : <GroupPage key={pool} pool={pool} />}</Box>
    </Announcer>
  );
};

const SlotGroup = (props: TaskTabProps) => {
  useSettled("Slot Group");
  return (
    <Announcer>
      <Box p={2}>
        <TaskTab {...props} />
      </Box>
    </Announcer>
  );
};

// A module is evaluated once, so it sets both: whichever is opened first finds its own, and so does the other.
Object.assign(globalThis, { "Slot Group": SlotGroup, "Slot Groups": SlotGroups });
