/**
 * The loaded parts of one conversation's history: ranges of messages without a gap, fetched in any order and at any position.
 *
 * Guarantees: two ranges become one only if nothing can be missing between them: they overlap, or one was fetched with the cursor of
 * the other. A live message is added only where nothing can be missing before it. What no viewer displays is removed, except the
 * newest messages: a removed part of a range can be loaded again like one that was never loaded.
 */
export interface TimelineItem {
  id: string;
  seq: number;
}

export interface PageInfo {
  hasPreviousPage: boolean;
  startCursor?: string | null;
  hasNextPage: boolean;
  endCursor?: string | null;
}

/** The position that a page was requested for. beforeSeq, afterSeq: a page around that seq, at the end of a range that was cut there. */
export type Position = { newest: true } | { before: string } | { after: string } | { aroundSeq: number } | { beforeSeq: number } | { afterSeq: number };

/** What to ask for the page next to a range: a cursor, or a seq if it was cut there; null if there is nothing more. */
export type Edge = string | number | null;

/** The most messages that a viewer displays. */
export const MAX_DISPLAYED = 300;
/** A range is cut when it has this many more. */
const CUT_AFTER = 50;
/** Messages that stay at the newest end, displayed or not. */
const KEPT_NEWEST = 50;
/** Live messages that are kept until a page is loaded. */
const MAX_LIVE = 100;

export interface Range {
  /** In order of seq. */
  readonly items: readonly TimelineItem[];
  /** Null at the beginning. */
  readonly older: Edge;
  /** Null at the end. */
  readonly newer: Edge;
  /** True if it ends with the newest message. */
  readonly isNewest: boolean;
}

const first = (range: Range) => range.items[0]?.seq ?? Infinity;
const last = (range: Range) => range.items.at(-1)?.seq ?? -Infinity;

function union(a: readonly TimelineItem[], b: readonly TimelineItem[]): TimelineItem[] {
  const bySeq = new Map([...a, ...b].map((item) => [item.seq, item]));
  return [...bySeq.values()].sort((one, other) => one.seq - other.seq);
}

function merged(a: Range, b: Range): Range {
  const oldest = first(a) <= first(b) ? a : b;
  const latest = last(a) >= last(b) ? a : b;
  const isNewest = a.isNewest || b.isNewest;
  const begins = first(a) === first(b) && (a.older === null || b.older === null);
  return { items: union(a.items, b.items), older: begins ? null : oldest.older, newer: isNewest ? null : latest.newer, isNewest };
}

const touches = (a: Range, b: Range) => (a.isNewest && b.isNewest) || (first(a) <= last(b) && first(b) <= last(a));

/** The parts of a range between these first and last seqs, which are in order. */
function partsOf(range: Range, parts: readonly (readonly [number, number])[]): Range[] {
  const joined: [number, number][] = [];
  for (const [from, to] of parts) {
    if (to < first(range) || from > last(range)) continue;
    const before = joined.at(-1);
    if (before && from <= before[1]) before[1] = Math.max(before[1], to);
    else joined.push([from, to]);
  }
  return joined.map(([from, to]) => ({
    items: range.items.filter(({ seq }) => from <= seq && seq <= to),
    older: from <= first(range) ? range.older : from,
    newer: to >= last(range) ? range.newer : to,
    isNewest: to >= last(range) && range.isNewest,
  }));
}

/** What is displayed: the end of the range, or the messages around a seq. */
export type Middle = "newest" | number;

/** The part of a range that is displayed if this is its middle. */
export function displayedPart({ items }: Range, middle: Middle): readonly TimelineItem[] {
  if (items.length <= MAX_DISPLAYED + CUT_AFTER) return items;
  const at = items.findIndex(({ seq }) => seq >= Number(middle));
  const from = Math.max(0, Math.min((at < 0 ? items.length : at) - MAX_DISPLAYED / 2, items.length - MAX_DISPLAYED));
  return items.slice(from, from + MAX_DISPLAYED);
}

export class Timeline {
  #ranges: Range[] = [];
  /** The latest live messages, while there is no range that ends with the newest message. */
  #live: TimelineItem[] = [];
  /** Live messages so far. */
  #liveCount = 0;
  /** All live messages after this number are still here, at the newest end. */
  #completeAfter = 0;
  /** Each returns the messages that it displays: a part of one range. */
  readonly viewers = new Set<() => readonly TimelineItem[]>();
  /** Changes with `clear`: a page that was requested in an earlier epoch must not be added. */
  epoch = 0;

  newest(): Range | undefined {
    return this.#ranges.find((range) => range.isNewest);
  }

  /** All loaded messages: each list has no gap. */
  lists(): (readonly TimelineItem[])[] {
    return [...this.#ranges.map(({ items }) => items), this.#live];
  }

  /** Pass it to `add` as it was when the page was requested. */
  get liveCount(): number {
    return this.#liveCount;
  }

  /** The range that contains this seq, or the place where it would be. */
  around(seq: number): Range | undefined {
    return this.#ranges.find((range) => (first(range) <= seq || !range.items.length) && (seq <= last(range) || range.isNewest));
  }

  /** Returns false if the page must be requested again: live messages that arrived meanwhile were not kept. */
  add(items: readonly TimelineItem[], info: PageInfo, position: Position, liveCount = this.#liveCount): boolean {
    const hasMissed = liveCount < this.#completeAfter;
    if (hasMissed && ("newest" in position || !items.length)) return false;
    const isNewest = !hasMissed && ("newest" in position || !info.hasNextPage);
    let range: Range = {
      items: union(items, []),
      older: info.hasPreviousPage ? (info.startCursor ?? null) : null,
      newer: isNewest ? null : info.hasNextPage ? (info.endCursor ?? null) : items.at(-1)!.seq,
      isNewest,
    };
    // An empty page means that the range next to it is the end.
    const before = "before" in position ? position.before : "beforeSeq" in position ? position.beforeSeq : undefined;
    const after = "after" in position ? position.after : "afterSeq" in position ? position.afterSeq : undefined;
    const neighbour = this.#ranges.find(({ older, newer }) => (before !== undefined && older === before) || (after !== undefined && newer === after));
    if (neighbour) {
      this.#ranges = this.#ranges.filter((each) => each !== neighbour);
      // A page around a seq also has messages of the range.
      const oldest = before !== undefined || first(range) < first(neighbour) ? range : neighbour;
      const latest = after !== undefined || last(range) > last(neighbour) ? range : neighbour;
      range = { items: union(neighbour.items, range.items), older: oldest.older, newer: latest.newer, isNewest: latest.isNewest };
    }
    this.#join(range);
    this.#addHeld();
    return true;
  }

  #addHeld(): void {
    const end = this.newest();
    if (!end || !this.#live.length) return;
    const later = this.#live.filter(({ seq }) => !end.items.length || seq > first(end));
    if (later.length < this.#live.length) this.#completeAfter = this.#liveCount - later.length;
    this.#live = [];
    this.#join({ ...end, items: union(end.items, later) });
  }

  /** A live message: nothing between the one before it and this one is missing. */
  addLive(item: TimelineItem): void {
    const end = this.newest();
    this.#liveCount += 1;
    if (!end) this.#hold(item);
    // While missed messages arrive, a page fetched meanwhile may contain later ones. Earlier messages arrive with their own page.
    else if (!end.items.length || item.seq > first(end)) this.#join({ ...end, items: union(end.items, [item]) });
    else this.#completeAfter = this.#liveCount;
    if (end && end.items.length >= MAX_DISPLAYED + CUT_AFTER) this.prune();
  }

  #hold(item: TimelineItem): void {
    this.#live = this.viewers.size ? [...this.#live, item].slice(-MAX_LIVE) : [];
    this.#completeAfter = Math.max(this.#completeAfter, this.#liveCount - this.#live.length);
  }

  /** Removes what nobody displays. */
  prune(): void {
    const end = this.newest();
    const displayed = [...[...this.viewers].map((viewer) => viewer()), end?.items.slice(-KEPT_NEWEST) ?? []];
    const parts = displayed.flatMap((part) => (part.length ? [[part[0]!.seq, part.at(-1)!.seq] as const] : [])).sort(([a], [b]) => a - b);
    this.#ranges = this.#ranges.flatMap((range) => (range.items.length ? partsOf(range, parts) : [range]));
    if (end && first(end) !== first(this.newest()!)) this.#completeAfter = this.#liveCount;
  }

  /** Adds a message that was in no page and no event. Returns false if others may be missing before it. */
  append(item: TimelineItem): boolean {
    const end = this.newest();
    if (!end || (item.seq !== last(end) + 1 && !end.items.some(({ seq }) => seq === item.seq))) return false;
    this.addLive(item);
    return true;
  }

  /** Forgets everything: too much was missed. */
  clear(): void {
    this.#ranges = [];
    this.#live = [];
    this.epoch++;
  }

  #join(range: Range): void {
    let joined = range;
    let apart = this.#ranges;
    for (let next; (next = apart.find((each) => touches(joined, each))); ) {
      const taken = next;
      joined = merged(joined, taken);
      apart = apart.filter((each) => each !== taken);
    }
    this.#ranges = [...apart, joined];
  }
}
