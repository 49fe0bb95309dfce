/** Groups from a file: what it will do to those that there are, before it is done. */
import { Checkbox, Field, Input } from "@chakra-ui/react";
import { useEffect, useState } from "react";

import { type Group, api } from "../api/client";
import { type Fields, fromFile } from "../lib/groupFile";
import { type Said, doneWords, importWords } from "../lib/words";
import { type Action, ActionDialog } from "./ActionDialog";

type Chosen = { entries?: Fields; fault?: string; name: string };

const read = async (file: File): Promise<Chosen> => {
  try {
    return { entries: fromFile(await file.text()), name: file.name };
  } catch (problem) {
    return { fault: (problem as Error).message, name: file.name };
  }
};

export const ImportDialog = ({
  groups,
  onClose,
  onDone,
}: {
  groups: Group[];
  onClose: () => void;
  onDone: (said: Said) => void;
}) => {
  const [chosen, setChosen] = useState<Chosen>();
  const [adopt, setAdopt] = useState(false);
  const [pools, setPools] = useState<string[]>([]);
  // The server looks at them anyway: whoever may not list them is told less before.
  useEffect(() => {
    api.pools().then(setPools, () => undefined);
  }, []);
  const entries = chosen?.entries;

  const choose = async (file: File | undefined) => setChosen(file === undefined ? undefined : await read(file));

  const action: Action = {
    button: "Import",
    children: (
      <>
        <Field.Root invalid={chosen?.fault !== undefined}>
          <Field.Label>File</Field.Label>
          <Input
            accept=".json,application/json"
            onChange={(event) => void choose(event.target.files?.[0])}
            // A file that was mended may be chosen again.
            onClick={(event) => {
              event.currentTarget.value = "";
              setChosen(undefined);
            }}
            p={1.5}
            type="file"
          />
          <Field.HelperText>An export of this page or of the CLI, or one of airflow pools.</Field.HelperText>
          <Field.ErrorText>{chosen?.fault}</Field.ErrorText>
        </Field.Root>
        <Checkbox.Root checked={adopt} onCheckedChange={({ checked }) => setAdopt(checked === true)}>
          <Checkbox.HiddenInput />
          <Checkbox.Control />
          <Checkbox.Label>Adopt ordinary pools of those names; else they are refused</Checkbox.Label>
        </Checkbox.Root>
      </>
    ),
    ready: entries !== undefined,
    run: async (comment) => doneWords(await api.import(entries ?? {}, adopt, chosen?.name ?? "", comment)),
    title: "Import groups",
    words: entries === undefined ? [] : importWords(entries, groups, pools, adopt),
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onDone} />;
};
