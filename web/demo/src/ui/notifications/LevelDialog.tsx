import type { Session } from "@confab/client";
import { useState } from "react";

import { SetLevelDocument, type NotificationLevel } from "../../gql";
import { Dialog } from "../Dialog";
import { day, time } from "../format";
import { useAttempt, useMutation } from "../useMutation";
import { useApp } from "../appContext";
import { LEVELS } from "./levels";

/** The parts of a session that say what it notifies of. */
export type Muting = Pick<Session, "muteStatus" | "mutedUntil">;

interface Props {
  /** A conversation, channel or workspace. */
  id: string;
  title: string;
  /** The level in force; null while it is not known. */
  level: NotificationLevel | null;
  /** The level in force without an exception here: its name and its explanation. */
  inherited: [name: string, hint: string];
  /** Null where nothing can be muted. */
  muting: Muting | null;
  close: () => void;
}

/** The notification level of one conversation, channel or workspace, and whether it is muted. */
export function LevelDialog({ id, title, level, inherited: [inherited, hint], muting, close }: Props) {
  const mutate = useMutation();
  const choose = async (level: NotificationLevel | null) => {
    if (await mutate(SetLevelDocument, { id, level })) close();
  };
  return (
    <Dialog title={`Notifications for ${title}`} close={close}>
      <ul className="choices level-choices">
        {LEVELS.map(([each, name, hint]) => (
          <li key={each}><button aria-pressed={level === each} onClick={() => void choose(each)}><span>{name}<small>{hint}</small></span></button></li>
        ))}
        <li><button onClick={() => void choose(null)}><span>{inherited}<small>{hint}</small></span></button></li>
      </ul>
      {muting && <MuteChoice id={id} muting={muting} />}
    </Dialog>
  );
}

/** until null: the mute does not end by itself. */
interface Mute {
  muted: boolean;
  until: string | null;
}

const NOT_MUTED: Mute = { muted: false, until: null };
const HOUR_MS = 3_600_000;
const DURATIONS: [name: string, ms: number | null][] = [
  ["For 1 hour", HOUR_MS],
  ["For 8 hours", 8 * HOUR_MS],
  ["For 1 day", 24 * HOUR_MS],
  ["For 1 week", 7 * 24 * HOUR_MS],
  ["Until I unmute it", null],
];

/** Muted conversations look muted in the list, and are in no total. */
function MuteChoice({ id, muting: { muteStatus, mutedUntil } }: { id: string; muting: Muting }) {
  const mute = useMute();
  const { client } = useApp();
  const [busy, setBusy] = useState(false);
  const set = async (chosen: string) => {
    setBusy(true);
    const length = DURATIONS.find(([name]) => name === chosen);
    await mute(id, length ? { muted: true, until: length[1] === null ? null : new Date(client.api.now() + length[1]).toISOString() } : NOT_MUTED);
    setBusy(false);
  };
  const now = mutedUntil ? `Until ${day(mutedUntil) === "Today" ? time(mutedUntil) : new Date(mutedUntil).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })}` : "Until I unmute it";
  return (
    <label className="choice mute-choice">
      <span>Muted<small>{muteStatus ? "No notifications, and left out of your totals" : "For a while, or until you unmute it"}</small></span>
      <select aria-label="Muted" disabled={busy} value={muteStatus ? "now" : "no"} onChange={(event) => void set(event.target.value)}>
        <option value="no">No</option>
        {muteStatus && <option value="now">{now}</option>}
        {DURATIONS.filter(([name]) => !muteStatus || name !== now).map(([name]) => <option key={name}>{name}</option>)}
      </select>
    </label>
  );
}

/** Mutes or unmutes a conversation or channel. Resolves to false if the server refuses. */
export function useMute() {
  const attempt = useAttempt();
  const { client } = useApp();
  return async (conversationId: string, { muted, until }: Mute) => (await attempt(client.muteSession(conversationId, muted, until ?? undefined))) !== null;
}
