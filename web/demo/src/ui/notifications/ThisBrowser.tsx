import { useEffect, useState, useSyncExternalStore } from "react";

import type { PushState } from "../../confab/push";
import { Icon } from "../Icon";
import { useOnline, useApp } from "../appContext";

const IS_APPLE_MOBILE = /iPhone|iPad|iPod/.test(navigator.userAgent);

/** For each state: a title, and what it means or what to do. */
const STATE_TEXTS: Record<PushState, [string, string]> = {
  checking: ["Checking…", ""],
  insecure: ["Not possible at this address", "Browsers allow notifications only for pages with https, and on your own computer (localhost)."],
  unsupported: IS_APPLE_MOBILE
    ? ["Add this page to the Home Screen first", "Tap Share, then “Add to Home Screen”, and open Confab from there."]
    : ["Not supported by this browser", "It has no push notifications, or they are switched off, for example in a private window."],
  framed: ["Not possible in this frame", "Open the demo in a tab of its own."],
  unavailable: ["Not offered by this server", "It has no keys for Web Push. The person who runs it can add them."],
  denied: ["Blocked in this browser", "You have blocked notifications for this page. Allow them in the browser's settings for this site."],
  off: ["Off in this browser", "Get a notification for new messages, even when this page is closed."],
  on: ["On in this browser", "You get notifications here, even when this page is closed."],
};

/** Switches pushes to this browser on and off, and sends a test. */
export function ThisBrowser() {
  const { push } = useApp();
  const online = useOnline();
  const state = useSyncExternalStore(push.onChange, push.state);
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState<{ text: string; isError: boolean } | null>(null);
  useEffect(() => void push.refresh(), [online]);
  const [title, hint] = state === "checking" && !online ? ["You are offline", ""] : STATE_TEXTS[state];

  const during = async (act: () => Promise<{ text: string; isError: boolean } | null>) => {
    setBusy(true);
    setResult(null);
    setResult(await act().catch(() => ({ text: "That did not work. Try again.", isError: true })));
    setBusy(false);
  };
  const failure = (text: string | null) => text && { text, isError: true };
  const turnOn = () => during(async () => failure(await push.switchOn()) || null);
  const turnOff = () => during(async () => failure(await push.switchOff()) || null);
  const test = () =>
    during(async () => {
      const { isAccepted, message } = await push.test();
      return { text: message, isError: !isAccepted };
    });

  return (
    <section className="this-browser" data-state={state} aria-label="This browser">
      <span className="device-sign" aria-hidden="true"><Icon name={state === "on" ? "bell" : "mute"} /></span>
      <div role="status">
        <b>{title}</b>
        {hint && <p>{hint}</p>}
      </div>
      {(state === "off" || state === "on") && (
        <div className="dialog-buttons">
          {state === "on" && <button className="button quiet" disabled={busy} onClick={() => void test()}>Send a test</button>}
          {state === "on" ? (
            <button className="button quiet" disabled={busy} onClick={() => void turnOff()}>Switch off</button>
          ) : (
            <button className="button" disabled={busy} onClick={() => void turnOn()}>Switch on</button>
          )}
        </div>
      )}
      <p className={result?.isError ? "result failure" : "result hint"} role="status">{result?.text}</p>
    </section>
  );
}
