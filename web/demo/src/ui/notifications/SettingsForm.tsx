import { useEffect, useState } from "react";

import { NotificationSettingsDocument, SetNotificationSettingsDocument, type NotificationPartsFragment } from "../../gql";
import { useMutation } from "../useMutation";
import { useAnswer, useApp } from "../appContext";
import { LEVELS } from "./levels";

/** Seconds that a push waits while a device is in use. If it still is then, the message was seen there. */
const DELAYS: [number, string][] = [[0, "Do not wait"], [10, "10 seconds"], [30, "30 seconds"], [60, "1 minute"], [300, "5 minutes"]];
const DEFAULT_TIMES = { doNotDisturbFrom: "22:00", doNotDisturbTo: "07:00" };
const LOCAL_TIME_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The settings for all devices of the user. Each is stored when it is changed. */
export function SettingsForm() {
  const mutate = useMutation();
  const { answers } = useApp();
  const { data, error } = useAnswer(NotificationSettingsDocument, {});
  /** Changes that the server has not confirmed yet. */
  const [changing, setChanging] = useState<Changes>({});
  if (error && !data) return <p role="alert">The settings didn't load. <button className="link" onClick={() => answers.refresh(NotificationSettingsDocument)}>Try again</button></p>;
  if (!data) return null;
  const settings = { ...data.notificationSettings, ...changing };
  const set = async (input: Changes) => {
    setChanging((now) => ({ ...now, ...input }));
    const done = await mutate(SetNotificationSettingsDocument, { input });
    if (done) answers.put(NotificationSettingsDocument, {}, { notificationSettings: done.setNotificationSettings });
    setChanging((now) => without(now, input));
    return done !== null;
  };
  return (
    <form className="notification-settings" onSubmit={(event) => event.preventDefault()}>
      <h3>On all your devices</h3>
      <fieldset className="levels">
        <legend>Notify me about</legend>
        {LEVELS.map(([level, name, hint]) => (
          <label key={level} data-chosen={settings.level === level || undefined}>
            <input type="radio" name="level" checked={settings.level === level} onChange={() => void set({ level })} />
            <span>{name}<small>{hint}</small></span>
          </label>
        ))}
      </fieldset>
      <Keywords settings={settings} set={set} />
      <DoNotDisturb settings={settings} set={set} />
      <label className="choice">
        <span>Wait while a device is in use<small>No notification if one still is after this time</small></span>
        <select aria-label="Wait while a device is in use" value={settings.delaySeconds} onChange={(event) => void set({ delaySeconds: Number(event.target.value) })}>
          {!DELAYS.some(([seconds]) => seconds === settings.delaySeconds) && <option value={settings.delaySeconds}>{`${settings.delaySeconds} seconds`}</option>}
          {DELAYS.map(([seconds, words]) => <option key={seconds} value={seconds}>{words}</option>)}
        </select>
      </label>
      <label className="choice">
        <span>Show the text of messages<small>Otherwise only who has written</small></span>
        <input type="checkbox" checked={settings.showPreview} onChange={(event) => void set({ showPreview: event.target.checked })} />
      </label>
    </form>
  );
}

type Changes = Partial<NotificationPartsFragment>;

/** A later change of the same setting stays. */
const without = (changes: Changes, ended: Changes): Changes =>
  Object.fromEntries(Object.entries(changes).filter(([name, value]) => ended[name as keyof Changes] !== value));

interface Props {
  settings: NotificationPartsFragment;
  /** Resolves to false if the change was refused. */
  set: (input: Changes) => Promise<boolean>;
}

function DoNotDisturb({ settings, set }: Props) {
  const { doNotDisturbFrom: from, doNotDisturbTo: to, timeZone } = settings;
  const { showToast } = useApp();
  const isOn = !!from && !!to;
  const setTimes = async (doNotDisturbFrom: string, doNotDisturbTo: string) => {
    if (doNotDisturbFrom !== doNotDisturbTo) return set({ doNotDisturbFrom, doNotDisturbTo });
    showToast("The two times must differ.");
    return false;
  };
  return (
    <div className="do-not-disturb">
      <label className="choice">
        <span>Do not disturb every day<small>{isOn ? "Nothing is pushed in this time" : "For example at night"}</small></span>
        <input
          type="checkbox"
          checked={isOn}
          onChange={(event) => void set(event.target.checked ? { ...DEFAULT_TIMES, timeZone: LOCAL_TIME_ZONE } : { doNotDisturbFrom: "", doNotDisturbTo: "" })}
        />
      </label>
      {isOn && (
        <>
          <div className="times">
            <Time label="From" value={from} save={(time) => setTimes(time, to)} />
            <Time label="To" value={to} save={(time) => setTimes(from, time)} />
          </div>
          <p className="hint">
            Times are in {timeZone.replaceAll("_", " ")}.{" "}
            {timeZone !== LOCAL_TIME_ZONE && <button type="button" className="link" onClick={() => void set({ timeZone: LOCAL_TIME_ZONE })}>Use {LOCAL_TIME_ZONE.replaceAll("_", " ")}</button>}
          </p>
        </>
      )}
    </div>
  );
}

/** Stored when the field loses the focus, not while the user is still typing. */
function Time({ label, value, save }: { label: string; value: string; save: (value: string) => Promise<boolean> }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const leave = async () => {
    if (text !== value && !(text && (await save(text)))) setText(value);
  };
  return (
    <label>
      {label}
      <input type="time" value={text} required onChange={(event) => setText(event.target.value)} onBlur={() => void leave()} />
    </label>
  );
}

const keywordsIn = (text: string) => [...new Set(text.split(",").map((each) => each.trim()).filter(Boolean))];

function Keywords({ settings: { keywords }, set }: Props) {
  const now = keywords.join(", ");
  const [text, setText] = useState(now);
  useEffect(() => setText(now), [now]);
  const save = () => keywordsIn(text).join(", ") !== now && void set({ keywords: keywordsIn(text) });
  return (
    <label>
      Words that notify like a mention
      <input value={text} placeholder="release, coffee" autoComplete="off" onChange={(event) => setText(event.target.value)} onBlur={save} onKeyDown={(event) => event.key === "Enter" && save()} />
    </label>
  );
}
