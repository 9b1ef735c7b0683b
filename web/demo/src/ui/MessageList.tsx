import { memo, useEffect, useMemo, useState, type ReactNode } from "react";

import type { Outgoing } from "../confab/outbox";
import type { HeldMessage } from "../confab/uploads";
import type { MessagePartsFragment, SessionPartsFragment } from "../gql";
import { Bubble, HeldBubble, PendingBubble, type MessageActions } from "./Bubble";
import { plural } from "./format";
import { Icon } from "./Icon";
import { rowsOf, seqOf, type Row } from "./messageRows";
import { statusOf, type Status } from "./Ticks";
import { useLatestActions } from "./useLatestActions";
import { useMessageScrolling } from "./useMessageScrolling";
import type { Target } from "./useTarget";
import { useWorld } from "./world";

interface Props extends MessageActions {
  messages: MessagePartsFragment[];
  loaded: boolean;
  outgoing: Outgoing[];
  /** Messages that wait for their files. */
  heldMessages: HeldMessage[];
  session: SessionPartsFragment | null;
  /** Messages of others have the sender's name and picture. */
  showsSenders: boolean;
  /** The line "New messages" is after this seq. */
  line: number | null;
  /** True while the user looks at the page. */
  watched: boolean;
  /** The message to show, in the middle; each new object shows it again. */
  target: Target | null;
  /** Called with the newest message that is on the screen while the user looks at it. */
  onSeen: (seq: number) => void;
  /** Begins at the newest message, not at the line. */
  fromEnd: boolean;
  loadOlder: (() => Promise<unknown>) | null;
  /** Null if the newest message is there. */
  loadNewer: (() => Promise<unknown>) | null;
  goToNewest: () => void;
  /** How many messages are unread, if the session does not say it. */
  unread?: number | undefined;
  /** The name of the list. */
  label?: string;
  /** Displayed instead of messages if there are none. */
  empty?: ReactNode;
  /** Displayed above the first message. */
  top?: ReactNode;
}

const HIGHLIGHT_MS = 2500;

/** The messages of a conversation. Only those near the visible part are in the document. */
export function MessageList({ loaded, label = "Messages", empty = "No messages yet. Say hello!", top, ...props }: Props) {
  const { me } = useWorld();
  const { messages, outgoing, heldMessages, showsSenders, loadOlder } = props;
  const rows = useMemo(() => rowsOf(messages, outgoing, heldMessages, me, showsSenders), [messages, outgoing, heldMessages, me, showsSenders]);
  const loading = !loaded && <div className="skeletons bubbles" role="status" aria-label="Loading">{[1, 2, 3, 4].map((each) => <i key={each} />)}</div>;
  const above = loading || (!loadOlder && top);
  // Once they are loaded, the list begins where the user left it, whatever was written meanwhile.
  if (rows.length) return <Rows key={String(loaded)} rows={rows} label={label} above={above} {...props} />;
  return (
    <div className="history">
      <div className="messages" role="log" aria-label={label} aria-live="off" tabIndex={0}>
        <div className="above">{above}</div>
        {loaded && <div className="empty">{empty}</div>}
      </div>
    </div>
  );
}

type RowsProps = Omit<Props, "loaded" | "label" | "empty" | "top"> & { rows: Row[]; label: string; above: ReactNode };

function Rows({ rows, label, above, messages, outgoing: _outgoing, heldMessages: _held, session, showsSenders, line, watched, target, onSeen, fromEnd, loadOlder, loadNewer, goToNewest, unread: givenUnread, ...given }: RowsProps) {
  const { me } = useWorld();
  const actions = useLatestActions<MessageActions>(given);
  const [lit, setLit] = useState<Target | null>(null);
  const firstNew = useMemo(
    () => (line === null ? undefined : messages.find((each) => each.seq > line && each.sender.id !== me && each.contentType !== "SYSTEM")),
    [messages, line, me],
  );
  const indexOf = (seq: number | undefined) => (seq === undefined ? -1 : rows.findIndex((row) => seqOf(row) === seq));
  const { box, head, virtualizer, atEnd, below, tabStop, holdRow, pressRow, onScroll, onKeyDown, toEnd } = useMessageScrolling({
    rows,
    me,
    firstNewIndex: indexOf(firstNew?.seq),
    targetIndex: indexOf(target?.seq),
    target,
    show: setLit,
    watched,
    fromEnd,
    onSeen,
    loadOlder,
    loadNewer,
  });

  useEffect(() => {
    const timer = lit && setTimeout(() => setLit(null), HIGHLIGHT_MS);
    return () => clearTimeout(timer ?? undefined);
  }, [lit]);

  const unread = session?.unreadCount ?? givenUnread ?? below;
  const newest = loadNewer ? -1 : (messages.at(-1)?.seq ?? -1);
  return (
    <div className="history">
      <div ref={box} className="messages" role="log" aria-label={label} aria-live="off" tabIndex={0} onScroll={onScroll} onKeyDown={onKeyDown}>
        <div ref={head} className="above">
          {loadOlder && <div className="spinner" role="status" aria-label="Loading older messages" />}
          {above}
        </div>
        <div ref={virtualizer.containerRef} className="message-rows">
          {virtualizer.getVirtualItems().map(({ index, key }) => {
            const row = rows[index]!;
            const message = "message" in row ? row.message : null;
            const isNew = message === firstNew && !!message;
            return (
              <div key={key} ref={virtualizer.measureElement} className="message-row" data-index={index} onPointerDown={() => pressRow(row.key)} onFocus={() => holdRow(row.key)} onBlur={() => holdRow(null)}>
                {message && "newDay" in row && row.newDay && <p className="day"><span>{row.newDay}</span></p>}
                {isNew && <p className="new-messages"><span>New messages</span></p>}
                <RowContent
                  row={row}
                  session={session}
                  showsSenders={showsSenders}
                  follows={"follows" in row && row.follows && !isNew}
                  lit={!!lit && seqOf(row) === lit.seq}
                  status={message && statusOf(message, session)}
                  setSize={newest}
                  isTabStop={row.key === tabStop}
                  actions={actions}
                />
              </div>
            );
          })}
        </div>
        {loadNewer && <div className="spinner" role="status" aria-label="Loading newer messages" />}
      </div>
      {!atEnd && (
        <button className="icon to-end" aria-label={`To the newest message${unread ? `, ${plural(unread, "unread message")}` : ""}`} onClick={() => (loadNewer ? goToNewest() : toEnd())}>
          <Icon name="down" />
          {unread > 0 && <span className="badge" aria-hidden="true">{unread}</span>}
        </button>
      )}
    </div>
  );
}

interface ContentProps {
  row: Row;
  session: SessionPartsFragment | null;
  showsSenders: boolean;
  follows: boolean;
  lit: boolean;
  status: Status | null;
  setSize: number;
  isTabStop: boolean;
  actions: MessageActions;
}

/** Rendered again only if something of this row changes: many rows pass while the user scrolls. */
const RowContent = memo(function RowContent({ row, status, actions, ...props }: ContentProps) {
  if ("outgoing" in row) return <PendingBubble item={row.outgoing} />;
  if ("heldMessage" in row) return <HeldBubble held={row.heldMessage} />;
  return <Bubble message={row.message} status={status!} {...props} {...actions} />;
}, (before, after) => {
  const { row: oldRow, ...old } = before;
  const { row: newRow, ...now } = after;
  const sameRow = oldRow === newRow || ("message" in oldRow && "message" in newRow && oldRow.message === newRow.message);
  return sameRow && (Object.keys(now) as (keyof typeof now)[]).every((name) => now[name] === old[name]);
});

/** The seq of the message in the middle of the displayed history; 0 if its newest message is on the screen, null without a history. */
export function placeOnScreen(): number | null {
  const list = document.querySelector<HTMLElement>(".messages");
  const articles = [...(list?.querySelectorAll<HTMLElement>("article[data-seq]") ?? [])];
  if (!list || !articles.length) return null;
  if (!document.querySelector(".to-end")) return 0;
  const { top, height } = list.getBoundingClientRect();
  const distance = (article: HTMLElement) => {
    const box = article.getBoundingClientRect();
    return Math.abs(box.top + box.height / 2 - top - height / 2);
  };
  return Number(articles.reduce((best, each) => (distance(each) < distance(best) ? each : best)).dataset.seq);
}
