import { Fragment, useEffect, useLayoutEffect, useRef, useState } from "react";

import type { Outgoing } from "../confab/outbox";
import type { HeldMessage } from "../confab/uploads";
import type { MessagePartsFragment, SessionPartsFragment } from "../gql";
import { Bubble, HeldBubble, PendingBubble, type MessageActions } from "./Bubble";
import { day, plural } from "./format";
import { Icon } from "./Icon";
import { statusOf } from "./Ticks";
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
}

const NEAR_PX = 400;
const AT_END_PX = 60;
const TOGETHER_MS = 5 * 60_000;
const HIGHLIGHT_MS = 2500;

export function MessageList({ messages, loaded, outgoing, heldMessages, session, showsSenders, line, watched, target, onSeen, fromEnd, loadOlder, loadNewer, goToNewest, ...actions }: Props) {
  const { me } = useWorld();
  const box = useRef<HTMLDivElement>(null);
  const before = useRef({ first: "", last: "", height: 0, atEnd: true, live: false });
  const [atEnd, setAtEnd] = useState(true);
  const loading = useRef(false);
  const shown = useRef<Props["target"]>(null);
  const [lit, setLit] = useState<number | null>(null);

  // Messages added above do not move the view. Messages added below scroll into view if the user is at the end, or wrote them. But
  // those that nobody has seen yet do not push the line off the screen.
  useLayoutEffect(() => {
    const list = box.current!;
    const { scrollHeight, clientHeight } = list;
    const first = messages[0]?.id ?? "";
    const last = heldMessages.at(-1)?.key ?? outgoing.at(-1)?.key ?? messages.at(-1)?.id ?? "";
    const was = before.current;
    const live = !loadNewer;
    const wrote = live && was.live && last !== was.last && (outgoing.length + heldMessages.length > 0 || messages.at(-1)?.sender.id === me);
    const divider = list.querySelector<HTMLElement>(".new-messages");
    const upToLine = divider ? divider.offsetTop - clientHeight / 4 : scrollHeight;
    const opened = !was.first && first;
    if (opened) list.scrollTop = fromEnd ? scrollHeight : upToLine;
    else if (was.atEnd || wrote) list.scrollTop = watched || wrote ? scrollHeight : Math.min(scrollHeight - clientHeight, upToLine);
    else if (first !== was.first) list.scrollTop += scrollHeight - was.height;
    before.current = { first, last, height: scrollHeight, atEnd: was.atEnd || wrote, live };
    const wanted = target && target !== shown.current && list.querySelector<HTMLElement>(`[data-seq="${target.seq}"]`);
    if (wanted) {
      shown.current = target;
      wanted.scrollIntoView({ block: "center" });
      if (!target.isQuiet) {
        wanted.focus({ preventScroll: true });
        setLit(target.seq);
      }
    }
    onScroll();
  });

  useEffect(() => {
    const timer = lit !== null && setTimeout(() => setLit(null), HIGHLIGHT_MS);
    return () => clearTimeout(timer || undefined);
  }, [lit, target]);

  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    const below = scrollHeight - scrollTop - clientHeight;
    before.current.atEnd = !loadNewer && below < AT_END_PX;
    before.current.height = scrollHeight;
    setAtEnd(before.current.atEnd);
    if (watched && messages.length) onSeen(newestOnScreen(box.current!));
    const load = scrollTop <= NEAR_PX && loadOlder ? loadOlder : below <= NEAR_PX ? loadNewer : null;
    if (!load || loading.current || !messages.length) return;
    loading.current = true;
    void load().finally(() => (loading.current = false));
  };

  const toEnd = () => {
    if (loadNewer) return goToNewest();
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    const isFar = scrollHeight - scrollTop > 4 * clientHeight;
    box.current!.scrollTo({ top: scrollHeight, behavior: isFar ? "instant" : "smooth" });
  };

  const firstNew = line === null ? undefined : messages.find((each) => each.seq > line && each.sender.id !== me && each.contentType !== "SYSTEM");
  const unread = session?.unreadCount ?? 0;
  return (
    <div className="history">
      <div ref={box} className="messages" role="log" aria-label="Messages" aria-live="off" tabIndex={0} onScroll={onScroll}>
        {!loaded && <div className="skeletons bubbles" role="status" aria-label="Loading">{[1, 2, 3, 4].map((each) => <i key={each} />)}</div>}
        {loadOlder && <div className="spinner" role="status" aria-label="Loading older messages" />}
        {loaded && !messages.length && !outgoing.length && !heldMessages.length && <p className="empty">No messages yet. Say hello!</p>}
        {messages.map((message, index) => {
          const previous = messages[index - 1];
          const newDay = !previous || day(previous.createdAt) !== day(message.createdAt);
          const follows =
            !newDay &&
            message !== firstNew &&
            previous.sender.id === message.sender.id &&
            previous.contentType !== "SYSTEM" &&
            Date.parse(message.createdAt) - Date.parse(previous.createdAt) < TOGETHER_MS;
          return (
            <Fragment key={message.id}>
              {newDay && <p className="day"><span>{day(message.createdAt)}</span></p>}
              {message === firstNew && <p className="new-messages"><span>New messages</span></p>}
              <Bubble message={message} session={session} showsSenders={showsSenders} follows={follows} lit={message.seq === lit} status={statusOf(message, session)} {...actions} />
            </Fragment>
          );
        })}
        {loadNewer && <div className="spinner" role="status" aria-label="Loading newer messages" />}
        {outgoing.map((item) => <PendingBubble key={item.key} item={item} />)}
        {heldMessages.map((each) => <HeldBubble key={each.key} held={each} />)}
      </div>
      {!atEnd && (
        <button className="icon to-end" aria-label={`To the newest message${unread ? `, ${plural(unread, "unread message")}` : ""}`} onClick={toEnd}>
          <Icon name="down" />
          {unread > 0 && <span className="badge" aria-hidden="true">{unread}</span>}
        </button>
      )}
    </div>
  );
}

/** The seq of the last message whose end is on the screen or above it; -1 if there is none. */
function newestOnScreen(list: HTMLElement): number {
  const bottom = list.getBoundingClientRect().bottom;
  const articles = list.querySelectorAll<HTMLElement>("article[data-seq]");
  for (let index = articles.length - 1; index >= 0; index -= 1) {
    if (articles[index]!.getBoundingClientRect().bottom <= bottom) return Number(articles[index]!.dataset.seq);
  }
  return -1;
}

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
