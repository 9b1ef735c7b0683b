/**
 * The loaded parts of one conversation's history: ranges of messages without a gap, fetched in any order and at any position.
 *
 * Guarantees: two ranges become one only if nothing can be missing between them: they overlap, or one was fetched with the cursor of
 * the other. A live message is added only where nothing can be missing before it.
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

/** The position that a page was requested for. */
export type Position = { newest: true } | { before: string } | { after: string } | { aroundSeq: number };

export interface Range {
  /** In order of seq. */
  readonly items: readonly TimelineItem[];
  /** Cursor for the page before it; null if this is the beginning. */
  readonly older: string | null;
  /** Cursor for the page after it; null at the end. */
  readonly newer: string | null;
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

export class Timeline {
  #ranges: Range[] = [];
  /** Live messages since the last `clear`, while there is no range that ends with the newest message. */
  #live: TimelineItem[] = [];
  /** Changes with `clear`: a page that was requested in an earlier epoch must not be added. */
  epoch = 0;

  newest(): Range | undefined {
    return this.#ranges.find((range) => range.isNewest);
  }

  upTo(seq: number): TimelineItem[] {
    return this.#ranges.flatMap(({ items }) => items.filter((item) => item.seq <= seq));
  }

  /** The range that contains this seq, or the place where it would be. */
  around(seq: number): Range | undefined {
    return this.#ranges.find((range) => (first(range) <= seq || !range.items.length) && (seq <= last(range) || range.isNewest));
  }

  add(items: readonly TimelineItem[], info: PageInfo, position: Position): void {
    const isNewest = "newest" in position || !info.hasNextPage;
    let range: Range = {
      items: union(items, []),
      older: info.hasPreviousPage ? (info.startCursor ?? null) : null,
      newer: isNewest ? null : (info.endCursor ?? null),
      isNewest,
    };
    // An empty page means that the range next to it is the end.
    const neighbour = this.#ranges.find((each) =>
      "before" in position ? each.older === position.before : "after" in position && each.newer === position.after,
    );
    if (neighbour) {
      this.#ranges = this.#ranges.filter((each) => each !== neighbour);
      range =
        "before" in position
          ? { items: union(range.items, neighbour.items), older: range.older, newer: neighbour.newer, isNewest: neighbour.isNewest }
          : { items: union(neighbour.items, range.items), older: neighbour.older, newer: range.newer, isNewest };
    }
    this.#join(range);
    const end = this.newest();
    if (!end || !this.#live.length) return;
    const later = this.#live.filter(({ seq }) => !end.items.length || seq > first(end));
    this.#live = [];
    this.#join({ ...end, items: union(end.items, later) });
  }

  /** A live message: nothing between the one before it and this one is missing. */
  addLive(item: TimelineItem): void {
    const end = this.newest();
    if (!end) this.#live.push(item);
    // While missed messages arrive, a page fetched meanwhile may contain later ones. Earlier messages come with their own page.
    else if (!end.items.length || item.seq > first(end)) this.#join({ ...end, items: union(end.items, [item]) });
  }

  /** Adds a message that did not come in a page or event. Returns false if others may be missing before it. */
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
