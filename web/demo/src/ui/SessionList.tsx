import { useEffect, useRef, useState, type KeyboardEvent } from "react";

import { SessionsDocument } from "../gql";
import { SessionRow } from "./SessionRow";
import { useHeldWhilePressed } from "./useHeldWhilePressed";
import { useAsked, useScreen, useWorld } from "./world";

interface Props {
  subBiz: string | null;
  categoryId: string | null;
  folders: string[];
  current: string | null;
  typing: (conversationId: string) => string;
}

/** One list of sessions. The cache orders it; this component displays it, and fetches more at its end. */
export function SessionList({ subBiz, categoryId, folders, current, typing }: Props) {
  const { client, sync } = useWorld();
  const screen = useScreen();
  const variables = { ...(subBiz && { subBiz }), ...(categoryId && { categoryId }) };
  const [{ data, error }, again] = useAsked({ query: SessionsDocument, variables, requestPolicy: subBiz || categoryId ? "cache-and-network" : "cache-first", pause: screen !== "there" });
  const [focused, setFocused] = useState<string | null>(null);
  const end = useRef<HTMLLIElement>(null);
  const list = useRef<HTMLUListElement>(null);

  const [sessions, onPointerDown] = useHeldWhilePressed(data?.sessions.edges.map((edge) => edge.node) ?? []);
  const more = data?.sessions.pageInfo.hasNextPage ? data.sessions.pageInfo.endCursor : null;
  useEffect(() => {
    if (!more || !end.current) return;
    const observer = new IntersectionObserver(([entry]) => {
      if (entry?.isIntersecting) void client.query(SessionsDocument, { ...variables, after: more }).toPromise();
    });
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [more]);

  // Arrows move between sessions; Tab goes through the list in one step.
  const stop = sessions.find(({ id }) => id === focused) ?? sessions.find((each) => each.conversation.id === current) ?? sessions[0];
  const onKeyDown = (event: KeyboardEvent) => {
    const links = [...list.current!.querySelectorAll<HTMLElement>("a.session")];
    const now = links.findIndex((link) => link.parentElement!.contains(document.activeElement));
    const to = { ArrowDown: Math.min(now + 1, links.length - 1), ArrowUp: Math.max(now - 1, 0), Home: 0, End: links.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    links[to]?.focus();
  };

  if (!data) {
    const reload = () => (screen === "there" ? again({ requestPolicy: "network-only" }) : sync.loadScreen());
    if (error || screen === "failed") return <p className="empty" role="alert">The list didn't load. <button className="link" onClick={reload}>Try again</button></p>;
    return <div className="skeletons" role="status" aria-label="Loading">{[1, 2, 3, 4, 5, 6].map((each) => <i key={each} />)}</div>;
  }
  if (!sessions.length) return <p className="empty">No conversations yet. Start one!</p>;
  return (
    <ul ref={list} className="sessions" aria-label="Sessions" onKeyDown={onKeyDown} onPointerDown={onPointerDown}>
      {sessions.map((session) => (
        <SessionRow
          key={session.id}
          session={session}
          current={session.conversation.id === current}
          typing={typing(session.conversation.id)}
          folders={folders}
          tabIndex={session === stop ? 0 : -1}
          onFocus={() => setFocused(session.id)}
        />
      ))}
      {more && <li ref={end} className="more" aria-hidden="true" />}
    </ul>
  );
}
