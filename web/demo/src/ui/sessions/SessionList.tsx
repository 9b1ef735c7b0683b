import { THREADS, type Session } from "@confab/client";
import { useView } from "@confab/client/react";
import { defaultRangeExtractor, useVirtualizer, type Range } from "@tanstack/react-virtual";
import { useCallback, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";

import { errorText } from "../../confab/errorText";
import { SessionRow } from "./SessionRow";
import { useDeletion } from "../undo/useDeletion";
import { useUnchangedWhilePressed } from "./useUnchangedWhilePressed";
import { useApp } from "../appContext";

interface Props {
  subBiz: string | null;
  categoryId: string | null;
  folders: readonly string[];
  current: string | null;
  /** Opens the dialog that starts a conversation or a group. */
  start: (what: "conversation" | "group") => void;
}

const OVERSCAN_ROWS = 12;
const ROW_PX = 68;
const PADDING_START_PX = 2;
const PADDING_END_PX = 12;

/** The row of all followed threads, which the demo shows at another place. */
export const isThreadsGateway = ({ conversation }: Session) => conversation.__typename === "SubBizGateway" && conversation.subBiz === THREADS;

/** One list of sessions, in the order of the client. */
export function SessionList({ subBiz, categoryId, folders, current, start }: Props) {
  const { client } = useApp();
  const { status, sessions: all, error } = useView(client.sessions({ ...(subBiz && { subBiz }), ...(categoryId && { categoryId }) }));
  const { isDeleted } = useDeletion();

  if (status === "failed") return <p className="empty" role="alert">The list didn't load. {error && errorText(error)} <button className="link" onClick={() => location.reload()}>Try again</button></p>;
  if (status === "loading") return <div className="skeletons" role="status" aria-label="Loading">{[1, 2, 3, 4, 5, 6].map((each) => <i key={each} />)}</div>;
  const sessions = all.filter((each) => !isDeleted(each) && !isThreadsGateway(each));
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
  return <Rows present={sessions} current={current} folders={folders} />;
}

interface RowsProps extends Pick<Props, "current" | "folders"> {
  present: readonly Session[];
}

/** Only the rows near the visible part are in the document, and the one that has the focus or gets it with Tab. */
function Rows({ present, current, folders }: RowsProps) {
  const [focused, setFocused] = useState<string | null>(null);
  const [sessions, onPointerDown] = useUnchangedWhilePressed(present);
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
              measure={virtualizer.measureElement}
              index={index}
              setSize={sessions.length}
              session={session}
              current={session.conversation.id === current}
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
