import { useGraphiQL } from "@graphiql/react";
import { useState, useSyncExternalStore } from "react";

import { eventLogs, type EventLog as Log, type LoggedEvent } from "./events";

/** All events of the subscription of the tab that is displayed, in place of the answer. Nothing if there is none. */
export function EventLog() {
  const tab = useGraphiQL((state) => state.tabs[state.activeTabIndex]?.id ?? "");
  const log = useSyncExternalStore(eventLogs.onChange, () => eventLogs.of(tab));
  return log ? <Events key={log.run} tab={tab} log={log} /> : null;
}

function Events({ tab, log }: { tab: string; log: Log }) {
  // The events that the user has opened or closed. Otherwise only the newest is open.
  const [chosen, setChosen] = useState<ReadonlyMap<number, boolean>>(new Map());
  const newest = log.events[0];
  const hidden = log.count - log.waiting.length - log.events.length;
  return (
    <section className="events" aria-label="Events">
      <header>
        <h2>
          <span className={log.isLive && !log.isPaused ? "dot live" : "dot"} aria-hidden="true" />
          {stateOf(log)}
        </h2>
        <button type="button" disabled={!log.isLive && !log.isPaused} onClick={() => (log.isPaused ? eventLogs.resume(tab) : eventLogs.pause(tab))}>
          {log.isPaused ? "Continue" : "Pause"}
        </button>
        <button type="button" disabled={log.count === 0} onClick={() => eventLogs.clear(tab)}>
          Clear
        </button>
      </header>
      <p className="sr-only" role="status">
        {newest ? `Event ${newest.number}: ${newest.type}` : ""}
      </p>
      {log.events.length > 0 ? (
        <ol aria-label={`Events of ${log.operation}, the newest first`}>
          {log.events.map((event) => (
            <Event
              key={event.number}
              event={event}
              isOpen={chosen.get(event.number) ?? event === newest}
              choose={(isOpen) => setChosen((before) => new Map(before).set(event.number, isOpen))}
            />
          ))}
        </ol>
      ) : (
        <p className="nothing">{log.isLive ? "New events appear here." : "No events."}</p>
      )}
      {hidden > 0 && log.events.length > 0 ? <p className="nothing">Older events are no longer kept.</p> : null}
    </section>
  );
}

function Event({ event, isOpen, choose }: { event: LoggedEvent; isOpen: boolean; choose: (isOpen: boolean) => void }) {
  return (
    <li className={event.isError ? "error" : undefined}>
      <button type="button" aria-expanded={isOpen} onClick={() => choose(!isOpen)}>
        <span className="number">{event.number}</span>
        <time dateTime={new Date(event.at).toISOString()}>{clock(event.at)}</time>
        <span className="type">{event.type}</span>
        {isOpen ? null : <span className="preview">{preview(event.result)}</span>}
      </button>
      {isOpen ? <pre>{JSON.stringify(event.result, null, 2)}</pre> : null}
    </li>
  );
}

function stateOf(log: Log): string {
  if (log.isPaused) return log.waiting.length > 0 ? `Paused, ${events(log.waiting.length)} waiting` : "Paused";
  if (!log.isLive) return `Ended after ${events(log.count)}`;
  return log.count > 0 ? `Listening, ${events(log.count)}` : "Waiting for the first event";
}

const events = (count: number) => (count === 1 ? "1 event" : `${count} events`);

/** The values of the event in one line. Cursors are left out, because they mean nothing to people. */
function preview(result: unknown): string {
  const { data, errors } = (result ?? {}) as { data?: unknown; errors?: { message: string }[] };
  if (errors?.length) return errors[0]!.message;
  const found: string[] = [];
  JSON.stringify(data, (key, value: unknown) => {
    if (key === "cursor" || key === "__typename") return undefined;
    if (typeof value === "string") found.push(value);
    else if (typeof value === "number" || typeof value === "boolean") found.push(`${key}: ${value}`);
    return value;
  });
  return found.join(", ").slice(0, 300);
}

/** hours:minutes:seconds.milliseconds, local time */
function clock(at: number): string {
  const time = new Date(at);
  return `${[time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":")}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}
