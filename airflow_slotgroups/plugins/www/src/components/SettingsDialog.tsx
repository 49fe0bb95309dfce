/** The settings of a group: for a new one, one to change, or a pool to adopt. */
import { Checkbox, Field, HStack, Input, NativeSelect, Text } from "@chakra-ui/react";
import { useEffect, useState, type ReactNode } from "react";

import { ApiError, type Group, type GroupSettings, api } from "../api/client";
import { type Said, UNLIMITED, sizeWords } from "../lib/words";
import { type Action, ActionDialog } from "./ActionDialog";
import { ErrorNotice } from "./ui";

export type Purpose = "adopt" | "create" | "edit";

export type Draft = {
  ageing: string;
  description: string;
  passes: string;
  pool: string;
  slots: string;
  strategy: Group["strategy"];
  unlimited: boolean;
};

export const draftOf = (group?: Group): Draft => ({
  ageing: String(group?.ageing_seconds ?? 0),
  description: group?.description ?? "",
  passes: String(group?.max_passes ?? 10),
  pool: group?.pool ?? "",
  slots: group === undefined || group.slots === UNLIMITED ? "1" : String(group.slots),
  strategy: group?.strategy ?? "strict",
  unlimited: group?.slots === UNLIMITED,
});

const whole = (text: string, least: number): boolean => /^\d+$/.test(text.trim()) && Number(text) >= least;

export const faultsOf = (draft: Draft, purpose: Purpose): Partial<Record<keyof Draft, string>> => ({
  ...(draft.pool.trim() === "" ? { pool: "Give a name." } : {}),
  ...(purpose !== "adopt" && !draft.unlimited && !whole(draft.slots, 0) ? { slots: "Give a whole number, 0 or more." } : {}),
  ...(draft.strategy === "backfill" && !whole(draft.passes, 1) ? { passes: "Give a whole number, 1 or more." } : {}),
  ...(whole(draft.ageing, 0) ? {} : { ageing: "Give a whole number of seconds, 0 for none." }),
});

/** What is sent: of a group that is changed, that alone which differs. */
export const settingsOf = (draft: Draft, purpose: Purpose, old?: Group): GroupSettings => {
  const size = draft.unlimited ? UNLIMITED : Number(draft.slots);
  const all: GroupSettings = {
    ageing_seconds: Number(draft.ageing),
    strategy: draft.strategy,
    ...(draft.strategy === "backfill" ? { max_passes: Number(draft.passes) } : {}),
    ...(purpose === "adopt" ? {} : { description: draft.description, slots: size }),
  };
  if (old === undefined) return all;
  const changed = Object.entries(all).filter(([key, value]) => old[key as keyof Group] !== value);
  return Object.fromEntries(changed);
};

const Labelled = ({
  children,
  fault,
  help,
  label,
}: {
  children: ReactNode;
  fault?: string | undefined;
  help?: string;
  label: string;
}) => (
  <Field.Root invalid={fault !== undefined}>
    <Field.Label>{label}</Field.Label>
    {children}
    {help === undefined ? null : <Field.HelperText>{help}</Field.HelperText>}
    <Field.ErrorText>{fault}</Field.ErrorText>
  </Field.Root>
);

/** Pools that are no group, nor kept by one. */
export const ordinary = (pools: string[], groups: string[]): string[] => {
  const taken = new Set([...groups, ...groups.map((name) => `${name}.running`), "slotgroups.unlimited"]);
  return pools.filter((name) => !taken.has(name));
};

const PoolSelect = ({
  groups,
  onChange,
  value,
}: {
  groups: string[];
  onChange: (pool: string) => void;
  value: string;
}) => {
  const [pools, setPools] = useState<string[]>();
  const [error, setError] = useState<ApiError>();
  useEffect(() => {
    api.pools().then(
      (names) => setPools(ordinary(names, groups)),
      (problem: unknown) => setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem))),
    );
    // The pools as they are when the dialog opens.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  if (error !== undefined) return <ErrorNotice error={error} />;
  if (pools?.length === 0) return <Text>Every pool is a slot group already.</Text>;
  return (
    <Labelled help="Its size and description stay; its tasks in flight go on." label="Pool">
      <NativeSelect.Root>
        <NativeSelect.Field onChange={(event) => onChange(event.target.value)} value={value}>
          <option value="">Choose a pool</option>
          {pools?.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
    </Labelled>
  );
};

const adoptWords = (pool: string): string[] =>
  pool === ""
    ? []
    : [
        `${pool} becomes a slot group: its tasks wait in a queue. Deferred tasks that were let in hold their slots until they end.`,
        ...(pool === "default_pool"
          ? ["It is the pool of every task that names none: all of them share this one queue then."]
          : []),
      ];

const TITLES: Record<Purpose, string> = { adopt: "Adopt a pool", create: "New group", edit: "Edit" };
const BUTTONS: Record<Purpose, string> = { adopt: "Adopt", create: "Create", edit: "Save" };

export const SettingsDialog = ({
  group,
  groups = [],
  onClose,
  onDone,
  purpose,
}: {
  group?: Group;
  /** Names that are taken. */
  groups?: string[];
  onClose: () => void;
  onDone: (said: Said) => void;
  purpose: Purpose;
}) => {
  // As it was when the dialog opened: what others change meanwhile is not undone.
  const [old] = useState(group);
  const [draft, setDraft] = useState(() => draftOf(old));
  const [touched, setTouched] = useState(false);
  const faults = faultsOf(draft, purpose);
  const shown = touched ? faults : {};
  const set = (change: Partial<Draft>) => {
    setTouched(true);
    setDraft((now) => ({ ...now, ...change }));
  };
  const settings = Object.keys(faults).length === 0 ? settingsOf(draft, purpose, old) : {};

  const run = async (comment: string | null) => {
    const body = { ...settings, comment };
    if (purpose === "create") await api.create(draft.pool.trim(), body);
    else if (purpose === "adopt") await api.adopt(draft.pool, body);
    else await api.change(draft.pool, body);
    const said: Record<Purpose, string> = {
      adopt: "is a slot group now",
      create: "is made",
      edit: "is changed",
    };
    return `${draft.pool.trim()} ${said[purpose]}`;
  };

  const size =
    purpose === "adopt" ? null : (
      <HStack align="flex-start" gap={6}>
        <Labelled fault={shown.slots} help="Slots that may be in use at once." label="Size">
          <Input
            disabled={draft.unlimited}
            inputMode="numeric"
            onChange={(event) => set({ slots: event.target.value })}
            value={draft.slots}
            width="140px"
          />
        </Labelled>
        <Checkbox.Root
          checked={draft.unlimited}
          flexShrink={0}
          mt={9}
          onCheckedChange={({ checked }) => set({ unlimited: checked === true })}
        >
          <Checkbox.HiddenInput />
          <Checkbox.Control />
          <Checkbox.Label>No limit</Checkbox.Label>
        </Checkbox.Root>
      </HStack>
    );

  const action: Action = {
    button: BUTTONS[purpose],
    children: (
      <>
        {purpose === "create" ? (
          <Labelled fault={shown.pool} help="The pool that tasks name." label="Name">
            <Input autoFocus maxLength={248} onChange={(event) => set({ pool: event.target.value })} value={draft.pool} />
          </Labelled>
        ) : null}
        {purpose === "adopt" ? (
          <PoolSelect groups={groups} onChange={(pool) => set({ pool })} value={draft.pool} />
        ) : null}
        {size}
        {purpose === "adopt" ? null : (
          <Labelled label="Description">
            <Input onChange={(event) => set({ description: event.target.value })} value={draft.description} />
          </Labelled>
        )}
        <Labelled
          help={
            draft.strategy === "strict"
              ? "Freed slots are kept for the head of the queue."
              : "Smaller requests may pass a head that does not fit yet."
          }
          label="Order"
        >
          <NativeSelect.Root>
            <NativeSelect.Field
              onChange={(event) => set({ strategy: event.target.value as Draft["strategy"] })}
              value={draft.strategy}
            >
              <option value="strict">strict</option>
              <option value="backfill">backfill</option>
            </NativeSelect.Field>
            <NativeSelect.Indicator />
          </NativeSelect.Root>
        </Labelled>
        {draft.strategy === "backfill" ? (
          <Labelled fault={shown.passes} help="How often the head may be passed." label="Passes at most">
            <Input inputMode="numeric" onChange={(event) => set({ passes: event.target.value })} value={draft.passes} />
          </Labelled>
        ) : null}
        <Labelled
          fault={shown.ageing}
          help="Seconds of waiting that are worth a point of priority; 0 for none."
          label="Ageing"
        >
          <Input inputMode="numeric" onChange={(event) => set({ ageing: event.target.value })} value={draft.ageing} />
        </Labelled>
      </>
    ),
    ready: Object.keys(faults).length === 0 && (old === undefined || Object.keys(settings).length > 0),
    run,
    title: purpose === "edit" ? `Edit ${draft.pool}` : TITLES[purpose],
    words:
      purpose === "adopt"
        ? adoptWords(draft.pool)
        : group !== undefined && faults.slots === undefined
          ? sizeWords(group, draft.unlimited ? UNLIMITED : Number(draft.slots))
          : [],
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onDone} />;
};
