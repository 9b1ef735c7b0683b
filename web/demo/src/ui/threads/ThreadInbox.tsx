import { useEffect, useRef, useState, type KeyboardEvent } from "react";

import { Icon } from "../Icon";
import { go } from "../route";
import { useUnchangedWhilePressed } from "../sessions/useUnchangedWhilePressed";
import { ThreadCard } from "./ThreadCard";
import { useFollowedThreads, useUnreadReplies } from "./useFollowedThreads";
import { unreadReplies } from "./format";

const PAGE = 30;

/** The threads that the user follows, the latest reply first. */
export function ThreadInbox({ workspaceId }: { workspaceId: string | null }) {
  const { status, threads, markAllRead, markRead, unfollow } = useFollowedThreads();
  const unread = useUnreadReplies();
  const [length, setLength] = useState(PAGE);
  const [shown, onPointerDown] = useUnchangedWhilePressed(threads.slice(0, length));
  const end = useRef<HTMLLIElement>(null);
  const hasMore = threads.length > length;
  useEffect(() => {
    if (!hasMore || !end.current) return;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && setLength((now) => now + PAGE));
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [hasMore, shown.length]);

  const leave = () => go({ workspaceId });
  const onKeyDown = (event: KeyboardEvent<HTMLUListElement>) => {
    const links = [...event.currentTarget.querySelectorAll<HTMLElement>("a.open-thread")];
    const now = links.findIndex((link) => link.closest("li")!.contains(document.activeElement));
    const to = { ArrowDown: Math.min(now + 1, links.length - 1), ArrowUp: Math.max(now - 1, 0), Home: 0, End: links.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    links[to]?.focus();
  };

  return (
    <main className="thread-inbox" aria-label="Threads" onKeyDown={(event) => event.key === "Escape" && leave()}>
      <header>
        <button className="icon back" aria-label="Back" onClick={leave}><Icon name="back" /></button>
        <div className="about">
          <h2>Threads</h2>
          <p role="status">{unread > 0 ? unreadReplies(unread) : threads.length ? "All read" : ""}</p>
        </div>
        {unread > 0 && <button className="follow" onClick={markAllRead}>Mark all as read</button>}
      </header>
      {status === "failed" && <p className="empty" role="alert">The threads didn't load.</p>}
      {status === "loading" && <div className="skeletons" role="status" aria-label="Loading">{[1, 2, 3, 4].map((each) => <i key={each} />)}</div>}
      {status === "ready" && !threads.length && (
        <div className="no-threads">
          <Icon name="thread" />
          <h2>No threads yet</h2>
          <p>Threads that you start, reply to or are mentioned in are listed here. To start one, choose “Reply in thread” in the menu of a message.</p>
        </div>
      )}
      {shown.length > 0 && (
        <ul aria-label="Followed threads" onKeyDown={onKeyDown} onPointerDown={onPointerDown}>
          {shown.map((each) => <ThreadCard key={each.id} session={each} markRead={() => markRead(each.conversation.id)} unfollow={() => unfollow(each.conversation.id)} />)}
          {hasMore && <li ref={end} className="more" aria-hidden="true" />}
        </ul>
      )}
    </main>
  );
}
