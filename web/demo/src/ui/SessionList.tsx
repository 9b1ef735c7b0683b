import type { Session } from "@confab/client";
import { defaultRangeExtractor, useVirtualizer, type Range } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";

import { SessionsDocument } from "../gql";
import { SessionRow } from "./SessionRow";
import { useDeletion } from "./undo/useDeletion";
import { useHeldWhilePressed } from "./useHeldWhilePressed";
import { useAsked, useScreen, useWorld } from "./world";

interface Props {
  subBiz: string | null;
  categoryId: string | null;
  folders: string[];
  current: string | null;
  typing: (conversationId: string) => string;
  /** Opens the dialog that starts a conversation or a group. */
  start: (what: "conversation" | "group") => void;
}

/** More sessions are loaded when so few are left below the visible ones. */
const NEAR_ROWS = 20;
const OVERSCAN_ROWS = 12;
const ROW_PX = 68;
const PADDING_START_PX = 2;
const PADDING_END_PX = 12;

/** One list of sessions. The cache orders it; this component displays it, and fetches more at its end. */
export function SessionList({ subBiz, categoryId, folders, current, typing, start }: Props) {
  const { client, sync } = useWorld();
  const screen = useScreen();
  const variables = { ...(subBiz && { subBiz }), ...(categoryId && { categoryId }) };
  const [{ data, error }, again] = useAsked({ query: SessionsDocument, variables, requestPolicy: subBiz || categoryId ? "cache-and-network" : "cache-first", pause: screen !== "there" });
  const { isDeleted } = useDeletion();
  const more = data?.sessions.pageInfo.hasNextPage ? data.sessions.pageInfo.endCursor : null;

  if (!data) {
    const reload = () => (screen === "there" ? again({ requestPolicy: "network-only" }) : sync.loadScreen());
    if (error || screen === "failed") return <p className="empty" role="alert">The list didn't load. <button className="link" onClick={reload}>Try again</button></p>;
    return <div className="skeletons" role="status" aria-label="Loading">{[1, 2, 3, 4, 5, 6].map((each) => <i key={each} />)}</div>;
  }
  const sessions = data.sessions.edges.map((edge) => edge.node).filter((each) => !isDeleted(each));
  if (!sessions.length) {
    return (
      <div className="empty">
        <b>No conversations yet</b>
        <p>Write to somebody you know, or start a group of three people or more.</p>
        <button className="button" onClick={() => start("conversation")}>New conversation</button>
        <button className="button quiet" onClick={() => start("group")}>New group</button>
      </div>
    );
  }
  return (
    <Rows
      present={sessions}
      current={current}
      folders={folders}
      typing={typing}
      isComplete={!more}
      loadMore={more ? () => void client.query(SessionsDocument, { ...variables, after: more }).toPromise() : null}
    />
  );
}

interface RowsProps extends Pick<Props, "current" | "folders" | "typing"> {
  present: readonly Session[];
  isComplete: boolean;
  loadMore: (() => void) | null;
}

/** Only the rows near the visible part are in the document, and the one that has the focus or gets it with Tab. */
function Rows({ present, current, folders, typing, isComplete, loadMore }: RowsProps) {
  const [focused, setFocused] = useState<string | null>(null);
  const [sessions, onPointerDown] = useHeldWhilePressed(present);
  const box = useRef<HTMLDivElement>(null);
  const focusNext = useRef<string | null>(null);

  // Arrows move between sessions; Tab goes through the list in one step.
  const found = sessions.findIndex(({ id }) => id === focused);
  const stop = Math.max(0, found >= 0 ? found : sessions.findIndex((each) => each.conversation.id === current));
  const virtualizer = useVirtualizer<HTMLDivElement, HTMLLIElement>({
    count: sessions.length,
    getScrollElement: () => box.current,
    getItemKey: useCallback((index: number) => sessions[index]!.id, [sessions]),
    estimateSize: () => ROW_PX,
    rangeExtractor: useCallback(
      (range: Range) => {
        const indexes = defaultRangeExtractor(range);
        return indexes.includes(stop) ? indexes : [...indexes, stop].sort((a, b) => a - b);
      },
      [stop],
    ),
    overscan: OVERSCAN_ROWS,
    paddingStart: PADDING_START_PX,
    paddingEnd: PADDING_END_PX,
    directDomUpdates: true,
    directDomUpdatesMode: "position",
  });

  const lastInRange = virtualizer.range?.endIndex ?? 0;
  const isNearEnd = !!loadMore && lastInRange > sessions.length - NEAR_ROWS;
  useEffect(() => {
    if (isNearEnd) loadMore?.();
  }, [isNearEnd, sessions.length]);

  useLayoutEffect(() => {
    const index = focusNext.current === null ? -1 : sessions.findIndex(({ id }) => id === focusNext.current);
    const link = index < 0 ? null : box.current!.querySelector<HTMLElement>(`li[data-index="${index}"] a.session`);
    if (!link) return;
    focusNext.current = null;
    link.focus({ preventScroll: true });
  });

  const onKeyDown = (event: KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>("li[data-index]");
    if (!row) return;
    const now = Number(row.dataset.index);
    const to = { ArrowDown: Math.min(now + 1, sessions.length - 1), ArrowUp: Math.max(now - 1, 0), Home: 0, End: sessions.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    focusNext.current = sessions[to]!.id;
    setFocused(sessions[to]!.id);
    virtualizer.scrollToIndex(to, { align: "auto" });
  };

  return (
    <div ref={box} className="sessions" onKeyDown={onKeyDown} onPointerDown={onPointerDown}>
      <ul ref={virtualizer.containerRef} aria-label="Sessions">
        {virtualizer.getVirtualItems().map(({ index, key }) => {
          const session = sessions[index]!;
          return (
            <SessionRow
              key={key}
              place={virtualizer.measureElement}
              index={index}
              setSize={isComplete ? sessions.length : -1}
              session={session}
              current={session.conversation.id === current}
              typing={typing(session.conversation.id)}
              folders={folders}
              tabIndex={index === stop ? 0 : -1}
              onFocus={setFocused}
            />
          );
        })}
      </ul>
    </div>
  );
}
