import { Fragment, useLayoutEffect, useRef, useState } from "react";

import type { Outgoing } from "../confab/outbox";
import type { MessagePartsFragment, SessionPartsFragment } from "../gql";
import { Bubble, PendingBubble } from "./Bubble";
import { day } from "./format";
import { Icon } from "./Icon";
import { statusOf } from "./Ticks";
import { useWorld } from "./world";

interface Props {
  messages: MessagePartsFragment[];
  loaded: boolean;
  outgoing: Outgoing[];
  session: SessionPartsFragment | null;
  readTo: number | null;
  loadOlder: (() => Promise<unknown>) | null;
  reply: (message: MessagePartsFragment) => void;
  edit: (message: MessagePartsFragment) => void;
  recall: (message: MessagePartsFragment) => void;
  info: (message: MessagePartsFragment) => void;
}

const NEAR_PX = 400;
const TOGETHER_MS = 5 * 60_000;

export function MessageList({ messages, loaded, outgoing, session, readTo, loadOlder, ...actions }: Props) {
  const { me } = useWorld();
  const box = useRef<HTMLDivElement>(null);
  const before = useRef({ first: "", last: "", height: 0, atEnd: true });
  const [atEnd, setAtEnd] = useState(true);
  const loading = useRef(false);

  // Messages added above do not move the view. Messages added below scroll into view if the user is at the end, or wrote them.
  useLayoutEffect(() => {
    const { scrollHeight } = box.current!;
    const first = messages[0]?.id ?? "";
    const last = outgoing.at(-1)?.key ?? messages.at(-1)?.id ?? "";
    const was = before.current;
    const wrote = last !== was.last && (outgoing.length > 0 || messages.at(-1)?.sender.id === me);
    if (!was.first && first) {
      const divider = box.current!.querySelector(".new-messages");
      if (divider) divider.scrollIntoView({ block: "center" });
      else box.current!.scrollTop = scrollHeight;
    } else if (was.atEnd || wrote) box.current!.scrollTop = scrollHeight;
    else if (first !== was.first) box.current!.scrollTop += scrollHeight - was.height;
    before.current = { first, last, height: scrollHeight, atEnd: was.atEnd || wrote };
    onScroll();
  });

  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    before.current.atEnd = scrollHeight - scrollTop - clientHeight < 60;
    before.current.height = scrollHeight;
    setAtEnd(before.current.atEnd);
    if (!loadOlder || loading.current || scrollTop > NEAR_PX) return;
    loading.current = true;
    void loadOlder().finally(() => (loading.current = false));
  };

  const firstNew = readTo === null ? undefined : messages.find((each) => each.seq > readTo && each.sender.id !== me && each.contentType !== "SYSTEM");
  return (
    <div className="history">
      <div ref={box} className="messages" role="log" aria-label="Messages" aria-live="off" tabIndex={0} onScroll={onScroll}>
        {!loaded && <div className="skeletons bubbles" role="status" aria-label="Loading">{[1, 2, 3, 4].map((each) => <i key={each} />)}</div>}
        {loadOlder && <div className="spinner" role="status" aria-label="Loading older messages" />}
        {loaded && !messages.length && !outgoing.length && <p className="empty">No messages yet. Say hello!</p>}
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
              <Bubble message={message} session={session} follows={follows} status={statusOf(message, session)} {...actions} />
            </Fragment>
          );
        })}
        {outgoing.map((item) => <PendingBubble key={item.key} item={item} />)}
      </div>
      {!atEnd && (
        <button className="icon to-end" aria-label="To the newest message" onClick={() => box.current!.scrollTo({ top: box.current!.scrollHeight, behavior: "smooth" })}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}
