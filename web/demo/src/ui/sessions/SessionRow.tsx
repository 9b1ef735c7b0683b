import type { Session } from "@confab/client";
import { memo, useRef, useState } from "react";

import { Avatar } from "../Avatar";
import { FolderDialog } from "./FolderDialog";
import { timeOrDay, plural, textOf } from "../format";
import { Icon } from "../Icon";
import { Menu, type MenuItem } from "../Menu";
import { LevelDialog } from "../notifications/LevelDialog";
import { StatusEmojiOf } from "../presence/CustomStatus";
import { PresenceForScreenReaders } from "../presence/PresenceText";
import { useLatestUser, useTitle } from "../presence/usePresence";
import { go, pathTo } from "../route";
import { statusOf, Ticks } from "../Ticks";
import { useAttempt } from "../useMutation";
import { useDeletion } from "../undo/useDeletion";
import { useLongPress } from "../useLongPress";
import { useTypingText, useApp } from "../appContext";

interface Props {
  /** Measures the row. */
  measure: (row: HTMLLIElement | null) => void;
  index: number;
  /** The number of sessions. */
  setSize: number;
  session: Session;
  current: boolean;
  folders: readonly string[];
  tabIndex: number;
  onFocus: (sessionId: string) => void;
}

/** Rendered again only if something of this session changes. */
export const SessionRow = memo(function SessionRow({ measure, index, setSize, session, current, folders, tabIndex, onFocus }: Props) {
  const { conversation, unreadCount, unreadMentionCount, unreadStatus, muteStatus, priority, subBiz, writeTs } = session;
  const [dialog, setDialog] = useState<"folder" | "level" | null>(null);
  const title = useTitle(conversation);
  const typing = useTypingText(conversation.id);
  const link = useRef<HTMLAnchorElement>(null);
  const longPress = useLongPress(() => link.current!.parentElement!.querySelector<HTMLElement>(".menu-button")!.click());
  const gateway = conversation.__typename === "SubBizGateway" ? conversation.subBiz : null;
  const peer = conversation.__typename === "PrivateConversation" ? conversation.peer : null;
  const states = [
    unreadCount && `${unreadCount} unread`,
    unreadMentionCount && plural(unreadMentionCount, "mention"),
    !unreadCount && unreadStatus && "marked as unread",
    priority && "pinned",
    muteStatus && "muted",
  ].filter(Boolean);

  return (
    <li ref={measure} data-index={index} aria-posinset={index + 1} aria-setsize={setSize} className={current ? "current" : undefined} onFocus={() => onFocus(session.id)}>
      <a
        ref={link}
        {...longPress}
        draggable={false}
        className="session"
        href={gateway ? pathTo({ subBiz: gateway }) : pathTo({ subBiz, conversationId: conversation.id })}
        aria-current={current || undefined}
        tabIndex={tabIndex}
      >
        <Face conversation={conversation} title={title} />
        <span className="first-line">
          <span className="title">{title}<span className="sr-only">{states.map((each) => `, ${each}`)}</span></span>
          {peer && <StatusEmojiOf userId={peer.id} />}
          {muteStatus && <Icon name="mute" />}
          <time dateTime={new Date(writeTs).toISOString()}>{timeOrDay(writeTs)}</time>
        </span>
        <span className="second-line">
          {typing ? <span className="preview typing">{typing}</span> : <Preview session={session} />}
          {priority > 0 && <Icon name="pin" />}
          {unreadMentionCount > 0 && <span className="badge mention" aria-hidden="true">@</span>}
          {unreadCount > 0 ? <span className={muteStatus ? "badge muted" : "badge"} aria-hidden="true">{unreadCount}</span> : unreadStatus && <span className="badge unread" />}
        </span>
        {peer && !peer.isBot && <PresenceForScreenReaders userId={peer.id} />}
      </a>
      <Menu label={`Actions for ${title}`} icon="down" tabIndex={tabIndex} items={useActions(session, title, current, setDialog)} />
      {dialog === "folder" && <FolderDialog session={session} title={title} folders={folders} close={() => setDialog(null)} />}
      {dialog === "level" && <LevelDialog id={conversation.id} title={title} level={session.notifications} inherited={["As in your settings", "No exception for this conversation"]} muting={session} close={() => setDialog(null)} />}
    </li>
  );
});

function Face({ conversation, title }: Pick<Session, "conversation"> & { title: string }) {
  const peer = useLatestUser(conversation.__typename === "PrivateConversation" ? conversation.peer : null);
  if (peer) return <Avatar id={peer.id} name={title} url={peer.avatarUrl} live={!peer.isBot} />;
  const group = conversation.__typename === "Group";
  return <Avatar id={conversation.id} name={title} url={group ? conversation.avatarUrl : null} sign={group ? "group" : "stack"} />;
}

function Preview({ session }: { session: Session }) {
  const { me } = useApp();
  const { lastMessage, conversation } = session;
  const namesSender = conversation.type !== "PRIVATE" && lastMessage && lastMessage.sender.id !== me;
  const sender = useLatestUser(namesSender ? lastMessage.sender : null);
  if (!lastMessage) return <span className="preview plain">No messages yet</span>;
  const own = lastMessage.sender.id === me;
  const plain = lastMessage.contentType === "SYSTEM" || lastMessage.state === "RECALLED";
  return (
    <span className={plain ? "preview plain" : "preview"}>
      {own && !plain && <Ticks status={statusOf(lastMessage, session)} />}
      {sender && !plain && <b>{conversation.type === "GROUP" ? sender.displayName.split(" ")[0] : sender.displayName}: </b>}
      {textOf(lastMessage)}
    </span>
  );
}

const HOUR_MS = 3_600_000;

function useActions(session: Session, title: string, current: boolean, ask: (what: "folder" | "level") => void): MenuItem[] {
  const attempt = useAttempt();
  const { client, offerUndo } = useApp();
  const deletion = useDeletion();
  const { conversation, unreadCount, unreadStatus, muteStatus, mutedUntil, priority } = session;
  const { id } = conversation;
  const gateway = conversation.__typename === "SubBizGateway";
  const item = (label: string, run: () => void, when: boolean, danger?: boolean): MenuItem[] => (when ? [{ label, run, ...(danger && { danger }) }] : []);
  const leave = () => current && go({ subBiz: session.subBiz });
  const pin = async (to: number) => {
    if ((await attempt(client.pinSession(id, to))) === null) return;
    offerUndo({ message: `${title} ${to ? "pinned" : "unpinned"}`, undo: () => void attempt(client.pinSession(id, priority)) });
  };
  const mute = async (muted: boolean, until?: string) => {
    if ((await attempt(client.muteSession(id, muted, until))) === null) return;
    const isOver = mutedUntil !== null && Date.parse(mutedUntil) < client.api.now();
    const before = isOver ? null : mutedUntil;
    offerUndo({ message: `${title} ${muted ? "muted" : "unmuted"}${until ? " for an hour" : ""}`, undo: () => void attempt(client.muteSession(id, muteStatus && !isOver, before ?? undefined)) });
  };
  const remove = () => {
    leave();
    deletion.begin(session, title);
    setTimeout(() => document.querySelector<HTMLElement>(".session[tabindex='0']")?.focus());
  };
  return [
    ...item("Mark as read", () => void attempt(client.markRead(id)), unreadCount > 0 || unreadStatus),
    ...item("Mark as unread", () => (leave(), void attempt(client.markUnread(id))), !gateway && !unreadCount && !unreadStatus),
    ...item("Pin", () => void pin(1), !priority),
    ...item("Unpin", () => void pin(0), priority > 0),
    ...item("Mute", () => void mute(true), !muteStatus),
    ...item("Mute for an hour", () => void mute(true, new Date(client.api.now() + HOUR_MS).toISOString()), !muteStatus),
    ...item("Unmute", () => void mute(false), muteStatus),
    ...item("Notifications…", () => ask("level"), !gateway),
    ...item("Move to folder…", () => ask("folder"), !gateway),
    ...item("Delete", remove, !gateway, true),
  ];
}
