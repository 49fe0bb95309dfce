/** Making, changing and ending a group, and its modes. */
import { Checkbox } from "@chakra-ui/react";
import { useState } from "react";

import { type Group, type ModeVerb, api } from "../api/client";
import { type Said, bypassWords, count, dissolveWords, pauseWords, resumeWords } from "../lib/words";
import { type Action, ActionDialog } from "./ActionDialog";
import { SettingsDialog } from "./SettingsDialog";

export type GroupAction = ModeVerb | "delete" | "dissolve" | "edit";

/** What makes sense in a mode; what the user may do is asked for elsewhere. */
export const actionsOf = (group: Group): GroupAction[] => {
  if (group.mode === "dissolving") return [];
  const modes: GroupAction[] = group.mode === "active" ? ["pause", "bypass"] : ["resume"];
  return [...modes, "edit", "dissolve", "delete"];
};

export const LABELS: Record<GroupAction, string> = {
  bypass: "Bypass",
  delete: "Delete",
  dissolve: "Dissolve",
  edit: "Edit",
  pause: "Pause",
  resume: "Resume",
};

type Props = { group: Group; onClose: () => void; onDone: (said: Said) => void };

const SAID: Record<ModeVerb, string> = { bypass: "has no limit now", pause: "is paused", resume: "is active" };
const WORDS: Record<ModeVerb, (group: Group) => string[]> = {
  bypass: bypassWords,
  pause: pauseWords,
  resume: resumeWords,
};

const modeAction = (group: Group, verb: ModeVerb): Action => ({
  button: LABELS[verb],
  danger: verb === "bypass",
  run: async (comment) => {
    await api.mode(verb, group.pool, comment);
    return `${group.pool} ${SAID[verb]}`;
  },
  title: `${LABELS[verb]} ${group.pool}?`,
  words: WORDS[verb](group),
});

const deleteAction = (group: Group): Action => {
  const inUse = group.waiting + group.holding + group.use.total > 0;
  return {
    button: "Delete",
    danger: true,
    refused: inUse,
    run: async (comment) => {
      await api.delete(group.pool, comment);
      return `${group.pool} is deleted`;
    },
    title: `Delete ${group.pool}?`,
    words: inUse
      ? [
          `It is in use: ${count(group.waiting, "waiter")}, ${count(group.holding, "holder")}. Wait until nobody does, or dissolve it: that keeps the pool.`,
        ]
      : ["The group goes, and its pool with it. Tasks that name the pool can not run until it is made again."],
  };
};

const DissolveDialog = ({ group, onClose, onDone }: Props) => {
  const [end, setEnd] = useState(false);
  const action: Action = {
    button: "Dissolve",
    children: (
      <Checkbox.Root checked={end} onCheckedChange={({ checked }) => setEnd(checked === true)}>
        <Checkbox.HiddenInput />
        <Checkbox.Control />
        <Checkbox.Label>End sections that wait or hold; else it is refused while there are any</Checkbox.Label>
      </Checkbox.Root>
    ),
    danger: true,
    run: async (comment) => {
      await api.dissolve(group.pool, end, comment);
      return `${group.pool} is an ordinary pool again`;
    },
    title: `Dissolve ${group.pool}?`,
    words: dissolveWords(group),
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onDone} />;
};

export const GroupDialog = ({ action, ...props }: Props & { action: GroupAction }) => {
  if (action === "edit") return <SettingsDialog {...props} purpose="edit" />;
  if (action === "dissolve") return <DissolveDialog {...props} />;
  const known = action === "delete" ? deleteAction(props.group) : modeAction(props.group, action);
  return <ActionDialog action={known} onClose={props.onClose} onDone={props.onDone} />;
};
