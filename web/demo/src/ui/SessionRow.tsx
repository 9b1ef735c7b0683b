import { useState } from "react";

import {
  DeleteSessionDocument,
  MarkReadDocument,
  MuteDocument,
  PinDocument,
  SetUnreadDocument,
  type SessionPartsFragment,
} from "../gql";
import { Avatar } from "./Avatar";
import { FolderDialog } from "./FolderDialog";
import { moment, plural, textOf } from "./format";
import { Icon } from "./Icon";
import { Menu, type MenuItem } from "./Menu";
import { LevelDialog } from "./notifications/LevelDialog";
import { StatusEmojiOf } from "./presence/CustomStatus";
import { SaidPresence } from "./presence/PresenceWords";
import { go, pathTo } from "./route";
import { statusOf, Ticks } from "./Ticks";
import { useDo } from "./useDo";
import { useWorld } from "./world";

interface Props {
  session: SessionPartsFragment;
  current: boolean;
  typing: string;
  folders: string[];
  tabIndex: number;
  onFocus: () => void;
}

export function SessionRow({ session, current, typing, folders, tabIndex, onFocus }: Props) {
  const { conversation, unreadCount, unreadMentionCount, unreadStatus, muteStatus, priority, subBiz, writeTs } = session;
  const [asked, setAsked] = useState<"folder" | "level" | null>(null);
  const gateway = conversation.__typename === "SubBizGateway" ? conversation.subBiz : null;
  const peer = conversation.__typename === "PrivateConversation" ? conversation.peer : null;
  const said = [
    unreadCount && `${unreadCount} unread`,
    unreadMentionCount && plural(unreadMentionCount, "mention"),
    !unreadCount && unreadStatus && "marked as unread",
    priority && "pinned",
    muteStatus && "muted",
  ].filter(Boolean);

  return (
    <li className={current ? "current" : undefined} onFocus={onFocus}>
      <a
        className="session"
        href={gateway ? pathTo({ subBiz: gateway }) : pathTo({ subBiz, conversationId: conversation.id })}
        aria-current={current || undefined}
        tabIndex={tabIndex}
      >
        <Face conversation={conversation} />
        <span className="first-line">
          <span className="title">{conversation.title}<span className="sr-only">{said.map((each) => `, ${each}`)}</span></span>
          {peer && <StatusEmojiOf userId={peer.id} />}
          {muteStatus && <Icon name="mute" />}
          <time dateTime={new Date(writeTs).toISOString()}>{moment(writeTs)}</time>
        </span>
        <span className="second-line">
          {typing ? <span className="preview typing">{typing}</span> : <Preview session={session} />}
          {priority > 0 && <Icon name="pin" />}
          {unreadMentionCount > 0 && <span className="badge mention" aria-hidden="true">@</span>}
          {unreadCount > 0 ? <span className={muteStatus ? "badge muted" : "badge"} aria-hidden="true">{unreadCount}</span> : unreadStatus && <span className="badge unread" />}
        </span>
        {peer && !peer.isBot && <SaidPresence userId={peer.id} />}
      </a>
      <Menu label={`Actions for ${conversation.title}`} icon="down" tabIndex={tabIndex} items={useActions(session, current, setAsked)} />
      {asked === "folder" && <FolderDialog session={session} folders={folders} close={() => setAsked(null)} />}
      {asked === "level" && <LevelDialog session={session} close={() => setAsked(null)} />}
    </li>
  );
}

function Face({ conversation }: Pick<SessionPartsFragment, "conversation">) {
  if (conversation.__typename === "PrivateConversation") {
    const { id, avatarUrl, isBot } = conversation.peer;
    return <Avatar id={id} name={conversation.title} url={avatarUrl} live={!isBot} />;
  }
  const group = conversation.__typename === "Group";
  return <Avatar id={conversation.id} name={conversation.title} url={group ? conversation.avatarUrl : null} sign={group ? "group" : "stack"} />;
}

function Preview({ session }: { session: SessionPartsFragment }) {
  const { me } = useWorld();
  const { lastMessage, conversation } = session;
  if (!lastMessage) return <span className="preview plain">No messages yet</span>;
  const own = lastMessage.sender.id === me;
  const plain = lastMessage.contentType === "SYSTEM" || lastMessage.state === "RECALLED";
  return (
    <span className={plain ? "preview plain" : "preview"}>
      {own && !plain && <Ticks status={statusOf(lastMessage, session)} />}
      {!own && !plain && conversation.type !== "PRIVATE" && <b>{conversation.type === "GROUP" ? lastMessage.sender.displayName.split(" ")[0] : lastMessage.sender.displayName}: </b>}
      {textOf(lastMessage)}
    </span>
  );
}

const HOUR_MS = 3_600_000;

function useActions(session: SessionPartsFragment, current: boolean, ask: (what: "folder" | "level") => void): MenuItem[] {
  const run = useDo();
  const { confirm } = useWorld();
  const { conversation, unreadCount, unreadStatus, muteStatus, priority } = session;
  const conversationId = conversation.id;
  const gateway = conversation.__typename === "SubBizGateway";
  const item = (label: string, run: () => void, when: boolean, danger?: boolean): MenuItem[] => (when ? [{ label, run, ...(danger && { danger }) }] : []);
  const leave = () => current && go({ subBiz: session.subBiz });
  const remove = async () => {
    const text = "It disappears from your list on all your devices, until somebody writes in it again. The others keep it.";
    if (!(await confirm({ title: `Delete ${conversation.title}?`, text, verb: "Delete" }))) return;
    leave();
    await run(DeleteSessionDocument, { conversationId });
  };
  return [
    ...item("Mark as read", () => run(MarkReadDocument, { conversationId }), unreadCount > 0 || unreadStatus),
    ...item("Mark as unread", () => (leave(), run(SetUnreadDocument, { conversationId })), !gateway && !unreadCount && !unreadStatus),
    ...item("Pin", () => run(PinDocument, { conversationId, priority: 1 }), !priority),
    ...item("Unpin", () => run(PinDocument, { conversationId, priority: 0 }), priority > 0),
    ...item("Mute", () => run(MuteDocument, { conversationId, muted: true }), !muteStatus),
    ...item("Mute for an hour", () => run(MuteDocument, { conversationId, muted: true, until: new Date(Date.now() + HOUR_MS).toISOString() }), !muteStatus),
    ...item("Unmute", () => run(MuteDocument, { conversationId, muted: false }), muteStatus),
    ...item("Notifications…", () => ask("level"), !gateway),
    ...item("Move to folder…", () => ask("folder"), !gateway),
    ...item("Delete", () => void remove(), !gateway, true),
  ];
}
