import { defaultRangeExtractor, useVirtualizer, type Range } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";

import { estimatedHeight, seqOf, type Row } from "./messageRows";
import type { Target } from "./useTarget";

interface Options {
  /** Not empty. */
  rows: readonly Row[];
  me: string;
  /** The row with the line "New messages"; -1 without one. */
  firstNewIndex: number;
  /** The row of the target; -1 if it is not there. */
  targetIndex: number;
  target: Target | null;
  /** Called when a target that is not quiet has been scrolled to. */
  show: (target: Target) => void;
  watched: boolean;
  fromEnd: boolean;
  onSeen: (seq: number) => void;
  loadOlder: (() => Promise<unknown>) | null;
  loadNewer: (() => Promise<unknown>) | null;
}

const AT_END_PX = 60;
/** More is loaded before the user gets to the end of what is there. */
const NEAR_SCREENS = 2.5;
/** For this time after a jump to the end, the list jumps there again when rows turn out to be higher, unless the user scrolls. */
const SETTLE_MS = 1000;
const OVERSCAN_ROWS = 8;
/** Above and below the rows. */
const PADDING_START_PX = 14;
const PADDING_END_PX = 16;

/**
 * Scrolling through rows of which only those near the visible part are in the document.
 *
 * Guarantees: rows that are added, removed or measured above do not move the visible ones. At the end, the view stays at the end when a
 * message arrives, or when the list becomes lower. But unseen messages do not push the line "New messages" off the screen. A row that
 * has the focus stays in the document. When the list becomes narrower, the row that the user clicked or focused last stays on the screen.
 */
export function useMessageScrolling({ rows, me, firstNewIndex, targetIndex, target, show, watched, fromEnd, onSeen, loadOlder, loadNewer }: Options) {
  const box = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const [headHeight, setHeadHeight] = useState(0);
  const [atEnd, setAtEnd] = useState(true);
  const [tabStop, setTabStop] = useState<string | null>(null);
  const before = useRef({ opened: false, last: "", atEnd: true, live: false });
  const heldRow = useRef<string | null>(null);
  /** The row that was clicked or focused last, as long as it is on the screen. */
  const usedRow = useRef<string | null>(null);
  const focusNext = useRef<string | null>(null);
  const shown = useRef<Target | null>(null);
  const seen = useRef(-1);
  const [newestAtFirst] = useState(() => (loadNewer ? Infinity : newestSeq(rows)));
  const loading = useRef(false);
  const looking = useRef(0);
  const isAtLine = useRef(false);
  const virtualizerHeight = useRef(0);
  const isTold = useRef(false);
  const settlesUntil = useRef(0);

  const height = () => virtualizerHeight.current || (box.current?.clientHeight ?? innerHeight);
  // The virtualizer keeps no measured height that equals the estimate, so an estimate must not change with the message.
  const [estimates] = useState(() => new Map<string, number>());
  const estimateSize = (index: number) => {
    const row = rows[index]!;
    const found = estimates.get(row.key) ?? estimatedHeight(row, box.current?.clientWidth ?? innerWidth);
    estimates.set(row.key, found);
    return found;
  };
  const virtualizer = useVirtualizer<HTMLDivElement, HTMLDivElement>({
    count: rows.length,
    getScrollElement: () => box.current,
    getItemKey: useCallback((index: number) => rows[index]!.key, [rows]),
    estimateSize,
    initialOffset: () => {
      const index = targetIndex >= 0 ? targetIndex : firstNewIndex >= 0 && !fromEnd ? firstNewIndex : rows.length;
      let offset = 0;
      for (let each = 0; each < index; each += 1) offset += estimateSize(each);
      return Math.max(0, index === rows.length ? offset : offset - height() / (targetIndex >= 0 ? 2 : 4));
    },
    rangeExtractor: useCallback(
      (range: Range) => {
        const indexes = defaultRangeExtractor(range);
        const held = heldRow.current === null ? -1 : rows.findIndex(({ key }) => key === heldRow.current);
        return held < 0 || indexes.includes(held) ? indexes : [...indexes, held].sort((a, b) => a - b);
      },
      [rows],
    ),
    overscan: OVERSCAN_ROWS,
    anchorTo: "end",
    scrollEndThreshold: AT_END_PX,
    scrollMargin: headHeight,
    scrollPaddingStart: isAtLine.current ? height() / 4 : 0,
    paddingStart: PADDING_START_PX,
    paddingEnd: PADDING_END_PX,
    directDomUpdates: true,
    directDomUpdatesMode: "position",
  });

  // A row above the visible part that changes its height does not move the visible part, in either direction of scrolling.
  virtualizer.shouldAdjustScrollPositionOnItemSizeChange = ({ key, start, end }) => {
    const offset = virtualizer.scrollOffset ?? 0;
    return start < offset && (end <= offset || !virtualizer.itemSizeCache.has(key));
  };
  virtualizerHeight.current = virtualizer.scrollRect?.height ?? 0;

  const toLine = () => {
    settlesUntil.current = 0;
    isAtLine.current = isTold.current = true;
    virtualizer.options.scrollPaddingStart = height() / 4;
    virtualizer.scrollToIndex(firstNewIndex, { align: "start" });
  };
  const toEnd = (behavior: "auto" | "smooth" = "auto") => {
    isAtLine.current = false;
    isTold.current = true;
    settlesUntil.current = behavior === "auto" ? performance.now() + SETTLE_MS : 0;
    virtualizer.scrollToEnd({ behavior });
  };
  const toRow = (index: number, align: "center" | "auto") => {
    settlesUntil.current = 0;
    isAtLine.current = false;
    isTold.current = true;
    virtualizer.options.scrollPaddingStart = 0;
    virtualizer.scrollToIndex(index, { align });
  };

  const itemOfUsedRow = () => virtualizer.getVirtualItems().find(({ key }) => key === usedRow.current);
  const forgetUsedRow = () => {
    if (usedRow.current === null) return;
    const item = itemOfUsedRow();
    const top = box.current!.scrollTop; // A row may be clicked before the virtualizer's own offset is up to date.
    if (!item || item.end <= top || item.start >= top + height()) usedRow.current = null;
  };

  /** The seq of the last row whose end is on the screen or above it, as far as rows are measured. */
  const newestInView = () => {
    const bottom = (virtualizer.scrollOffset ?? 0) + height();
    return virtualizer.getVirtualItems().reduce((newest, { index, end }) => (end <= bottom + 1 ? Math.max(newest, seqOf(rows[index]) ?? 0) : newest), 0);
  };
  const look = () => {
    if (looking.current || newestInView() <= seen.current) return;
    looking.current = requestAnimationFrame(() => {
      looking.current = 0;
      if (box.current) lookNow();
    });
  };
  const lookNow = () => {
    const newest = newestOnScreen(box.current!);
    if (newest <= seen.current) return;
    seen.current = newest;
    onSeen(newest);
  };
  /** Reads no sizes from the document, which would cost a layout in each frame. top: the virtualizer's own offset may be outdated. */
  const check = (top: number) => {
    const belowPx = headHeight + virtualizer.getTotalSize() - top - height();
    const isSettling = !loadNewer && performance.now() < settlesUntil.current;
    if (isSettling && belowPx > 2) virtualizer.scrollToEnd();
    before.current.atEnd = isSettling || (!loadNewer && belowPx < AT_END_PX);
    setAtEnd(before.current.atEnd);
    if (watched) look();
    const near = NEAR_SCREENS * height();
    const load = top <= near && loadOlder ? loadOlder : belowPx <= near ? loadNewer : null;
    if (!load || loading.current) return;
    loading.current = true;
    void load().finally(() => (loading.current = false));
  };

  // The content above the rows may change its height.
  const measureHead = () => {
    const now = head.current!.offsetHeight;
    if (now === headHeight) return;
    setHeadHeight(now);
    if (box.current!.scrollTop > headHeight) box.current!.scrollTop += now - headHeight;
  };
  const latestMeasureHead = useRef(measureHead);
  useLayoutEffect(() => void (latestMeasureHead.current = measureHead));
  useLayoutEffect(() => {
    latestMeasureHead.current();
    const observer = new ResizeObserver(() => latestMeasureHead.current());
    observer.observe(head.current!);
    return () => observer.disconnect();
  }, [!loadOlder]);

  useLayoutEffect(() => {
    const was = before.current;
    const last = rows.at(-1)!;
    const hasNew = last.key !== was.last;
    const live = !loadNewer;
    const isOwn = !("message" in last) || last.message.sender.id === me;
    const wrote = live && was.live && hasNew && isOwn;
    if (!was.opened) {
      if (firstNewIndex >= 0 && !fromEnd) toLine();
      else toEnd();
    } else if (live && hasNew && (was.atEnd || wrote)) {
      const lineTop = firstNewIndex < 0 ? Infinity : (virtualizer.getOffsetForIndex(firstNewIndex, "start")?.[0] ?? Infinity) - height() / 4;
      if (watched || wrote || lineTop > box.current!.scrollHeight - height()) toEnd();
      else toLine();
    }
    before.current = { opened: true, last: last.key, live, atEnd: was.atEnd || wrote };
    if (target && target !== shown.current && targetIndex >= 0) {
      shown.current = target;
      toRow(targetIndex, "center");
      if (!target.isQuiet) {
        focusNext.current = rows[targetIndex]!.key;
        show(target);
      }
    }
    if (focusNext.current !== null) {
      const index = rows.findIndex(({ key }) => key === focusNext.current);
      const article = box.current!.querySelector<HTMLElement>(`.message-row[data-index="${index}"] article`);
      if (article) {
        focusNext.current = null;
        article.focus({ preventScroll: true });
      }
    }
    const wasMoved = hasNew || isTold.current;
    isTold.current = false;
    if (hasNew && watched && box.current!.querySelector("article")) lookNow(); // At once, so that the line is not placed above visible messages.
    check(wasMoved ? box.current!.scrollTop : (virtualizer.scrollOffset ?? 0));
  });
  useEffect(() => () => cancelAnimationFrame(looking.current), []);

  // The composer grows, a keyboard opens, a thread is opened, the window is resized.
  useEffect(() => {
    const element = box.current!;
    let width = element.clientWidth;
    const observer = new ResizeObserver(() => {
      const used = element.clientWidth === width ? undefined : itemOfUsedRow();
      width = element.clientWidth;
      if (used) toRow(used.index, "auto");
      else if (before.current.atEnd) toEnd();
    });
    observer.observe(element);
    const settle = () => void (settlesUntil.current = 0);
    const inputs = ["wheel", "touchstart", "pointerdown", "keydown"] as const;
    inputs.forEach((each) => element.addEventListener(each, settle, { passive: true }));
    return () => {
      observer.disconnect();
      inputs.forEach((each) => element.removeEventListener(each, settle));
    };
  }, []);

  /** The arrow keys move between messages if one of them has the focus. */
  const onKeyDown = (event: KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>(".message-row");
    if (!row || !box.current!.contains(row) || (event.target as HTMLElement).closest("video, audio")) return;
    const index = Number(row.dataset.index);
    const to = { ArrowUp: index - 1, ArrowDown: index + 1 }[event.key];
    if (to === undefined || !rows[to]) return;
    event.preventDefault();
    focusNext.current = heldRow.current = rows[to].key;
    toRow(to, "auto");
    setTabStop(rows[to].key);
  };

  const stop = tabStop !== null && rows.some(({ key }) => key === tabStop) ? tabStop : rows[virtualizer.range?.endIndex ?? rows.length - 1]?.key;
  return {
    box,
    head,
    virtualizer,
    atEnd,
    /** The number of messages of others below the visible part that were not on the screen yet. */
    below: atEnd ? 0 : rows.filter((row) => "message" in row && row.message.seq > Math.max(seen.current, newestAtFirst) && row.message.sender.id !== me).length,
    /** The row that the Tab key goes to. */
    tabStop: stop ?? null,
    /** The row that has the focus: it stays in the document. */
    holdRow: (key: string | null) => {
      heldRow.current = key;
      if (key !== null) setTabStop(key);
      usedRow.current = key ?? usedRow.current;
    },
    /** For a press on a row: not every browser gives the focus to a clicked button. */
    pressRow: (key: string) => void (usedRow.current = key),
    onScroll: () => {
      forgetUsedRow();
      check(virtualizer.scrollOffset ?? 0);
    },
    onKeyDown,
    toEnd: () => {
      const { scrollTop, scrollHeight, clientHeight } = box.current!;
      toEnd(scrollHeight - scrollTop > 4 * clientHeight ? "auto" : "smooth");
    },
  };
}

const newestSeq = (rows: readonly Row[]) => rows.reduce((newest, row) => Math.max(newest, seqOf(row) ?? 0), 0);

/** The seq of the last message whose end is on the screen or above it; 0 if there is none. */
function newestOnScreen(list: HTMLElement): number {
  const bottom = list.getBoundingClientRect().bottom;
  const articles = list.querySelectorAll<HTMLElement>("article[data-seq]");
  for (let index = articles.length - 1; index >= 0; index -= 1) {
    if (articles[index]!.getBoundingClientRect().bottom <= bottom) return Number(articles[index]!.dataset.seq);
  }
  return 0;
}
