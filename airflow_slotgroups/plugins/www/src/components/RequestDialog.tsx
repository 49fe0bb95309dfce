/** The levers on waiting requests, for one or for many. */
import { Field, Input } from "@chakra-ui/react";
import { useState } from "react";

import { type Group, type SlotRequest, api } from "../api/client";
import { type Said, forceWords, forcedWords, namesOf, suspendWords, topWords, unsuspendWords } from "../lib/words";
import { type Action, ActionDialog } from "./ActionDialog";

export type Lever = "force-start" | "priority" | "suspend" | "to-top" | "unsuspend";

export type Pull = { lever: Lever; requests: SlotRequest[] };

const INT32 = 2 ** 31;

export const RequestDialog = ({
  group,
  onClose,
  onDone,
  pull: { lever, requests },
}: {
  group: Group;
  onClose: () => void;
  onDone: (said: Said) => void;
  pull: Pull;
}) => {
  const [priority, setPriority] = useState(String(requests[0]?.priority ?? 0));
  const ids = requests.map((request) => request.request_id);
  const name = namesOf(requests);
  const number = Number(priority);
  const valid = priority.trim() !== "" && Number.isInteger(number) && number >= -INT32 && number < INT32;

  const act = (verb: "suspend" | "unsuspend", said: string) => async (comment: string | null) => {
    await api.act(verb, group.pool, ids, comment);
    return said;
  };
  const prioritize = (to: number | null, said: string) => async (comment: string | null) => {
    await api.prioritize(group.pool, ids, to, comment);
    return said;
  };

  const actions: Record<Lever, () => Action> = {
    "force-start": () => ({
      button: "Force start",
      danger: true,
      run: async (comment) => forcedWords(name, (await api.act("force-start", group.pool, ids, comment)).requests),
      title: `Force start ${name}?`,
      words: forceWords(group, requests),
    }),
    priority: () => ({
      button: "Set priority",
      children: (
        <Field.Root invalid={!valid} required>
          <Field.Label>Priority</Field.Label>
          <Input
            autoFocus
            inputMode="numeric"
            onChange={(event) => setPriority(event.target.value)}
            onFocus={(event) => event.target.select()}
            value={priority}
          />
          <Field.HelperText>Bigger goes first.</Field.HelperText>
          <Field.ErrorText>Give a whole number of 32 bits.</Field.ErrorText>
        </Field.Root>
      ),
      ready: valid,
      run: prioritize(number, `${name}: priority ${priority}`),
      title: `Priority of ${name}`,
      words:
        requests.length === 1
          ? [`Its priority is ${requests[0]?.priority ?? 0} now.`]
          : ["All of them get this priority; those of one priority go by arrival."],
    }),
    suspend: () => ({
      button: "Suspend",
      run: act("suspend", `${name} suspended`),
      title: `Suspend ${name}?`,
      words: suspendWords(requests),
    }),
    "to-top": () => ({
      button: "To top",
      run: prioritize(null, `${name} put before all others`),
      title: `Put ${name} before all others?`,
      words: topWords(requests),
    }),
    unsuspend: () => ({
      button: "Unsuspend",
      run: act("unsuspend", `${name} takes part again`),
      title: `Unsuspend ${name}?`,
      words: unsuspendWords(requests),
    }),
  };
  return <ActionDialog action={actions[lever]()} onClose={onClose} onDone={onDone} />;
};
