import type { User } from "@confab/client";
import { useEffect, useState } from "react";

import { OwnPresenceDocument, SetCustomStatusDocument, SetPresenceDocument, type OwnPresencePartsFragment, type PresenceSetting, type SetCustomStatusMutationVariables } from "../../gql";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { day, time } from "../format";
import { useMutation } from "../useMutation";
import { useApp } from "../appContext";
import { PresenceIcon } from "./PresenceDot";
import { PRESENCE_NAMES } from "./usePresence";

const SETTINGS: [PresenceSetting, string][] = [
  ["ONLINE", "Idle by itself when you are away"],
  ["IDLE", "Shown as away, even if you are here"],
  ["DND", "Shown as busy"],
  ["INVISIBLE", "Shown as offline; you see everything"],
];

const MINUTE_MS = 60_000;
const tomorrow = (now: number) => new Date(now).setHours(24, 0, 0, 0);
const DURATIONS: Record<string, (now: number) => number | null> = {
  "Until I change it": () => null,
  "For 30 minutes": (now) => now + 30 * MINUTE_MS,
  "For 1 hour": (now) => now + 60 * MINUTE_MS,
  "Until tomorrow": tomorrow,
};
const [NO_END] = Object.keys(DURATIONS) as [string];
const PRESETS: [string, string][] = [["📅", "In a meeting"], ["🏠", "Working remotely"], ["🤒", "Out sick"], ["🌴", "On holiday"]];

/** now: the server's time. */
const endOf = (length: string, now: number) => {
  const at = DURATIONS[length]!(now);
  return at === null ? null : new Date(at).toISOString();
};
const until = (at: string) => `until ${day(at) === "Today" ? "" : "tomorrow, "}${time(at)}`;

interface Props {
  me: User;
  own: OwnPresencePartsFragment;
  close: () => void;
  editProfile: () => void;
}

/** Sets the user's own presence and custom status, both with an end. */
export function StatusDialog({ me, own, close, editProfile }: Props) {
  return (
    <Dialog title="Your status" close={close}>
      <div className="own-person">
        <Avatar id={me.id} name={me.displayName} url={me.avatarUrl} small />
        <b>{me.displayName}</b>
        <button className="button quiet" onClick={editProfile}>Edit profile</button>
      </div>
      <PresenceChoice own={own} />
      <CustomStatusForm own={own} close={close} />
    </Dialog>
  );
}

function PresenceChoice({ own }: { own: OwnPresencePartsFragment }) {
  const mutate = useMutation();
  const { answers, client } = useApp();
  const [length, setLength] = useState(own.until ? "" : NO_END);
  const set = async (status: PresenceSetting, length: string) => {
    const until = length ? endOf(length, client.api.now()) : own.until;
    const done = await mutate(SetPresenceDocument, { status, until: status === "ONLINE" ? null : until });
    if (done) answers.put(OwnPresenceDocument, {}, { ready: { presence: done.setPresence } });
  };
  return (
    <fieldset className="presence-choice">
      <legend className="sr-only">Presence</legend>
      {SETTINGS.map(([setting, hint]) => (
        <label key={setting} data-chosen={own.setting === setting || undefined}>
          <input className="sr-only" type="radio" name="presence" checked={own.setting === setting} onChange={() => void set(setting, length)} />
          <PresenceIcon status={setting} />
          <span>
            <b>{PRESENCE_NAMES[setting]}</b>
            <small>{own.setting === setting && own.until ? until(own.until) : hint}</small>
          </span>
        </label>
      ))}
      <DurationSelect
        label="How long"
        value={own.until || length ? length : NO_END}
        now={own.until}
        choose={(next) => {
          setLength(next);
          if (own.setting !== "ONLINE") void set(own.setting, next);
        }}
      />
    </fieldset>
  );
}

function CustomStatusForm({ own, close }: { own: OwnPresencePartsFragment; close: () => void }) {
  const mutate = useMutation();
  const { answers, client } = useApp();
  const status = own.customStatus;
  const [emoji, setEmoji] = useState(status?.emoji ?? "");
  const [text, setText] = useState(status?.text ?? "");
  const [length, setLength] = useState(status?.expiresAt ? "" : NO_END);
  useEffect(() => {
    setEmoji(status?.emoji ?? "");
    setText(status?.text ?? "");
  }, [status?.emoji, status?.text]);
  const set = async (next: SetCustomStatusMutationVariables) => {
    const done = await mutate(SetCustomStatusDocument, next);
    if (!done) return;
    answers.put(OwnPresenceDocument, {}, { ready: { presence: done.setCustomStatus } });
    close();
  };
  const save = () => set({ emoji: emoji.trim() || null, text: text.trim() || null, expiresAt: length ? endOf(length, client.api.now()) : status!.expiresAt });
  const clear = () => set({ emoji: null, text: null });
  return (
    <form className="custom-status" onSubmit={(event) => (event.preventDefault(), void save())}>
      <div className="status-line">
        <input className="emoji" aria-label="Emoji" placeholder="🙂" value={emoji} maxLength={16} autoComplete="off" onChange={(event) => setEmoji(event.target.value)} />
        <input aria-label="Status text" placeholder="What is your status?" value={text} maxLength={128} onChange={(event) => setText(event.target.value)} />
      </div>
      <div className="presets">
        {PRESETS.map(([emoji, text]) => (
          <button key={text} type="button" onClick={() => (setEmoji(emoji), setText(text))}><span aria-hidden="true">{emoji}</span> {text}</button>
        ))}
      </div>
      <DurationSelect label="Clear it" value={length} choose={setLength} now={status?.expiresAt} />
      <div className="dialog-buttons">
        {status && <button type="button" className="button quiet" onClick={() => void clear()}>Clear status</button>}
        <button className="button" disabled={!emoji.trim() && !text.trim()}>Save</button>
      </div>
    </form>
  );
}

function DurationSelect({ label, value, choose, now }: { label: string; value: string; choose: (length: string) => void; now?: string | null | undefined }) {
  return (
    <label className="length">
      {label}
      <select value={value} onChange={(event) => choose(event.target.value)}>
        {now && <option value="">{`${until(now)[0]!.toUpperCase()}${until(now).slice(1)}`}</option>}
        {Object.keys(DURATIONS).map((each) => <option key={each}>{each}</option>)}
      </select>
    </label>
  );
}
