/** Asks before it acts: what will happen, a comment, and a refusal with its remedy. */
import { Button, CloseButton, Dialog, Field, Portal, Stack, Text, Textarea } from "@chakra-ui/react";
import { useRef, useState, type FormEvent, type ReactNode } from "react";

import { ApiError } from "../api/client";
import type { Said } from "../lib/words";
import { ErrorNotice } from "./ui";

export type Action = {
  /** What the button says. */
  button: string;
  children?: ReactNode;
  danger?: boolean;
  /** Whether the button can be pressed. */
  ready?: boolean;
  /** It can not be done as things are, whatever is filled in: there is nothing to comment on. */
  refused?: boolean;
  /** Does it; what it returns is announced. */
  run: (comment: string | null) => Promise<Said>;
  title: string;
  words?: string[];
};

export const ActionDialog = ({
  action,
  onClose,
  onDone,
}: {
  action: Action;
  onClose: () => void;
  onDone: (said: Said) => void;
}) => {
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const first = useRef<HTMLTextAreaElement>(null);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    event.stopPropagation();
    setBusy(true);
    try {
      const said = await action.run(comment.trim() || null);
      onDone(said);
      onClose();
    } catch (problem) {
      setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem)));
      setBusy(false);
    }
  };

  return (
    <Dialog.Root
      initialFocusEl={action.children === undefined ? () => first.current : undefined}
      onOpenChange={({ open }) => {
        if (!open) onClose();
      }}
      open
      role={action.danger === true ? "alertdialog" : "dialog"}
    >
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content asChild>
            <form onSubmit={(event) => void submit(event)}>
              <Dialog.Header>
                <Dialog.Title>{action.title}</Dialog.Title>
              </Dialog.Header>
              <Dialog.Body>
                <Stack gap={4}>
                  {action.children}
                  <Stack aria-live="polite" gap={2}>
                    {action.words?.map((line) => <Text key={line}>{line}</Text>)}
                  </Stack>
                  {action.refused === true ? null : (
                    <Field.Root>
                      <Field.Label>Comment</Field.Label>
                      <Textarea
                        maxLength={10_000}
                        onChange={(event) => setComment(event.target.value)}
                        ref={first}
                        rows={2}
                        value={comment}
                      />
                      <Field.HelperText>Why; kept in the audit log.</Field.HelperText>
                    </Field.Root>
                  )}
                  <ErrorNotice error={error} />
                </Stack>
              </Dialog.Body>
              <Dialog.Footer>
                <Button onClick={onClose} type="button" variant="outline">
                  Cancel
                </Button>
                <Button
                  colorPalette={action.danger === true ? "danger" : "brand"}
                  disabled={action.ready === false || action.refused === true}
                  loading={busy}
                  type="submit"
                >
                  {action.button}
                </Button>
              </Dialog.Footer>
              <Dialog.CloseTrigger asChild>
                <CloseButton aria-label="Close" size="sm" type="button" />
              </Dialog.CloseTrigger>
            </form>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
};
