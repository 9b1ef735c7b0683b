// The events of each tab's subscription. GraphiQL itself displays only the newest.

const MOST_EVENTS = 200;

/** number: counts from 1 since the subscription began. at: ms since the epoch. */
export interface LoggedEvent {
  number: number;
  at: number;
  type: string;
  isError: boolean;
  result: unknown;
}

/** events: the newest first. waiting: those that came while the log was paused. */
export interface EventLog {
  run: number;
  operation: string;
  events: LoggedEvent[];
  waiting: LoggedEvent[];
  count: number;
  isPaused: boolean;
  isLive: boolean;
}

/** Writes a subscription's events into its log, until another subscription begins in the same tab. */
export interface EventSink {
  /** Returns the number of the event. */
  add(result: unknown): number;
  end(): void;
}

class EventLogs {
  /** The id of the tab that is displayed. */
  tab = "";
  private runs = 0;
  private isScheduled = false;
  private readonly logs = new Map<string, EventLog>();
  private readonly listeners = new Set<() => void>();

  readonly of = (tab: string): EventLog | undefined => this.logs.get(tab);

  readonly onChange = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Begins a log in the tab that is displayed. */
  begin(operation: string): EventSink {
    const { tab } = this;
    const run = ++this.runs;
    let count = 0;
    this.put(tab, { run, operation, events: [], waiting: [], count, isPaused: false, isLive: true });
    const change = (changed: (log: EventLog) => Partial<EventLog>) => {
      if (this.logs.get(tab)?.run === run) this.change(tab, changed);
    };
    return {
      add(result) {
        const event = toEvent(++count, result);
        change((log) => ({ count, ...(log.isPaused ? { waiting: newest(event, log.waiting) } : { events: newest(event, log.events) }) }));
        return count;
      },
      end: () => change(() => ({ isLive: false })),
    };
  }

  /** Removes the log of the tab that is displayed. */
  remove(): void {
    if (this.logs.delete(this.tab)) this.tell();
  }

  clear(tab: string): void {
    this.change(tab, () => ({ events: [], waiting: [] }));
  }

  pause(tab: string): void {
    this.change(tab, () => ({ isPaused: true }));
  }

  resume(tab: string): void {
    this.change(tab, (log) => ({ isPaused: false, waiting: [], events: [...log.waiting, ...log.events].slice(0, MOST_EVENTS) }));
  }

  private change(tab: string, changed: (log: EventLog) => Partial<EventLog>): void {
    const log = this.logs.get(tab);
    if (log) this.put(tab, { ...log, ...changed(log) });
  }

  private put(tab: string, log: EventLog): void {
    this.logs.set(tab, log);
    this.tell();
  }

  /** Many events may come at once: they are displayed with the next frame. */
  private tell(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      for (const listener of this.listeners) listener();
    });
  }
}

export const eventLogs = new EventLogs();

function newest(event: LoggedEvent, events: LoggedEvent[]): LoggedEvent[] {
  return [event, ...events].slice(0, MOST_EVENTS);
}

function toEvent(number: number, result: unknown): LoggedEvent {
  const { data, errors } = (result ?? {}) as { data?: Record<string, unknown> | null; errors?: unknown };
  const [field, content] = Object.entries(data ?? {})[0] ?? ["", null];
  const type = (content as { __typename?: string } | null)?.__typename ?? field;
  return { number, at: Date.now(), type: errors ? "Error" : type, isError: Boolean(errors), result };
}
