import type { Message, Session } from "@confab/client";
import { useRef, useState, type CSSProperties } from "react";

import type { Outgoing } from "../confab/outbox";
import type { HeldMessage } from "../confab/uploads";
import { Avatar } from "./Avatar";
import { useIsBlocked } from "./blocking/useBlocks";
import { Attachments } from "./files/Attachments";
import { Embeds } from "./files/Embeds";
import { Sending, Tray } from "./files/Tray";
import { useFiles } from "./files/useFiles";
import { hueOf, plural, textOf, time } from "./format";
import { Icon } from "./Icon";
import { Menu, type MenuItem } from "./Menu";
import { SystemText } from "./pins/SystemText";
import { EmojiPicker } from "./reactions/EmojiPicker";
import { Reactions } from "./reactions/Reactions";
import { MessageText } from "./text/MessageText";
import { ThreadLine, ThreadOrigin } from "./threads/ThreadLine";
import { Ticks, type Status } from "./Ticks";
import { useLongPress } from "./useLongPress";
import { useWorld } from "./world";

type Action = (message: Message) => void;

/** Without an action, its menu item is not there. */
export interface MessageActions {
  /** Adds one's own reaction, or removes it. */
  react?: (message: Message, emoji: string, isOwn: boolean) => void;
  reply?: Action;
  /** Opens the message's thread, which has replies. */
  openThread?: Action;
  /** Opens the message's thread, also for the first reply. */
  startThread?: Action;
  edit?: Action;
  recall?: Action;
  /** Removes the link previews. */
  suppress?: Action;
  /** Pins the message, or unpins it. */
  pin?: Action | undefined;
  /** Whether the user may recall messages of others. */
  mayRecallAll?: boolean;
  info?: Action;
  report?: Action;
  /** Shows the message with this seq. */
  jump: (seq: number) => void;
}

interface Props extends MessageActions {
  message: Message;
  session: Session | null;
  /** Messages of others have the sender's name and picture. */
  showsSenders: boolean;
  /** True if the previous message is from the same person. */
  follows: boolean;
  /** Highlighted for a moment. */
  lit: boolean;
  status: Status;
  /** The number of messages; -1 if it is not known. */
  setSize: number;
  /** The Tab key goes to this message. */
  isTabStop: boolean;
}

const RECALL_WITHIN_MS = 120_000;

export function Bubble({ message, session, showsSenders, follows, lit, status, setSize, isTabStop, react, reply, openThread, startThread, edit, recall, suppress, pin, mayRecallAll, info, report, jump }: Props) {
  const { me, tell } = useWorld();
  const article = useRef<HTMLElement>(null);
  /** The element next to which an emoji is chosen. */
  const [picking, setPicking] = useState<HTMLElement | null>(null);
  const [revealed, setRevealed] = useState(false);
  const isBlocked = useIsBlocked(message.sender.id) ?? message.isFromBlocked;
  const { sender, replyTo } = message;
  const menuButton = () => article.current!.querySelector<HTMLElement>(".menu-button");
  // Links have their own menu.
  const longPress = useLongPress(() => menuButton()?.click(), { except: "a, video, audio" });
  // The parent message above a thread has seq 0: it is not one of the replies.
  const position = message.seq ? { "aria-posinset": message.seq, "aria-setsize": setSize } : {};
  const place = { "data-seq": message.seq, ...position, tabIndex: isTabStop ? 0 : -1 };
  if (message.contentType === "SYSTEM") return <article className={lit ? "system lit" : "system"} {...place}><SystemText message={message} jump={jump} /></article>;

  // In a private conversation everything is from them.
  if (isBlocked && showsSenders && !revealed) {
    return (
      <article className="system" {...place}>
        <span>Message from {sender.displayName}, blocked by you <button className="link" onClick={() => setRevealed(true)}>Show</button></span>
      </article>
    );
  }

  const own = sender.id === me;
  const group = session?.conversation.__typename === "Group" ? session.conversation : null;
  const recalled = message.state === "RECALLED";
  const rules = mayRecallAll || group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN";
  const item = (label: string, run: Action | undefined, when: boolean): MenuItem[] => (run && when ? [{ label, run: () => run(message) }] : []);
  const items = [
    ...item("React", react && (() => setPicking(menuButton())), !recalled),
    ...item("Reply", reply, !recalled),
    ...item(message.isPinned ? "Unpin" : "Pin", pin, !recalled),
    ...item("Reply in thread", startThread ?? (message.thread ? openThread : undefined), !recalled || !!message.thread),
    ...item("Edit", edit, own && !recalled),
    ...item("Recall", recall, !recalled && (rules || (own && Date.now() - Date.parse(message.createdAt) < RECALL_WITHIN_MS))),
    ...item("Remove link previews", suppress, own && message.embeds.length > 0 && !sender.isBot),
    // Browsers offer it on secure pages only.
    ...item("Copy text", ({ content }) => void navigator.clipboard.writeText(content ?? "").catch(() => tell("The text could not be copied.")), !!navigator.clipboard && !recalled && !!message.content),
    ...item("Info", info, own),
    ...item("Report", report, !own && !recalled),
  ];
  const choose = (emoji: string) => react?.(message, emoji, message.reactions.some((each) => each.emoji === emoji && each.viewerReacted));
  const named = showsSenders && !own && !follows;

  return (
    <article ref={article} className={["bubble", own ? "own" : "", showsSenders ? "grouped" : "", follows ? "follows" : "", recalled ? "recalled" : "", lit ? "lit" : ""].join(" ")} {...place} data-status={own ? status : undefined}>
      {named && <Avatar id={sender.id} name={sender.displayName} url={sender.avatarUrl} small />}
      <div className="body" {...longPress}>
        {named ? (
          <p className="sender" style={{ "--hue": hueOf(sender.id) } as CSSProperties}>{sender.displayName}</p>
        ) : (
          <span className="sr-only">{own ? "You" : sender.displayName}: </span>
        )}
        {message.broadcastOf && openThread && <ThreadOrigin open={() => openThread(message)} />}
        {replyTo && !recalled && (
          <blockquote>
            <button style={{ "--hue": hueOf(replyTo.sender.id) } as CSSProperties} title="Show the quoted message" onClick={() => jump(replyTo.seq)}>
              <b>{replyTo.sender.id === me ? "You" : replyTo.sender.displayName}</b>
              <span>{textOf(replyTo)}</span>
            </button>
          </blockquote>
        )}
        {!recalled && message.attachments.length > 0 && <Attachments files={message.attachments} />}
        {recalled ? <p className="text">{textOf(message)}</p> : message.content && <MessageText {...message} />}
        {!recalled && message.embeds.length > 0 && <Embeds embeds={message.embeds} />}
        <p className="meta">
          {message.isPinned && !recalled && <span className="pin-sign" role="img" aria-label="Pinned" title="Pinned"><Icon name="pin" /></span>}
          {message.editCount > 0 && !recalled && <span>edited</span>}
          <time dateTime={message.createdAt}>{time(message.createdAt)}</time>
          {own && !recalled && <Ticks status={status} />}
        </p>
        {!recalled && <Reactions reactions={message.reactions} toggle={react ? (emoji, isOwn) => react(message, emoji, isOwn) : null} />}
        {message.thread && !message.broadcastOf && openThread && <ThreadLine thread={message.thread} open={() => openThread(message)} />}
      </div>
      {items.length > 0 && (
        <div className="quick">
          {react && !recalled && <button className="icon" aria-label="React" title="React" tabIndex={isTabStop ? 0 : -1} onClick={(event) => setPicking(event.currentTarget)}><Icon name="smile" /></button>}
          {reply && !recalled && <button className="icon" aria-label="Reply" title="Reply" tabIndex={isTabStop ? 0 : -1} onClick={() => reply(message)}><Icon name="reply" /></button>}
          <Menu label="Actions for message" items={items} tabIndex={isTabStop ? 0 : -1} />
        </div>
      )}
      {picking && <EmojiPicker at={picking} choose={choose} close={() => setPicking(null)} />}
    </article>
  );
}

/** A message that waits in the outbox, or that the server refused. */
export function PendingBubble({ item }: { item: Outgoing }) {
  const { outbox, uploads } = useWorld();
  const status = item.failure ? "failed" : "pending";
  const ids = item.input.attachmentIds ?? [];
  const previews = ids.flatMap((id) => uploads.localPictureOf(id) ?? []);
  return (
    <article className="bubble own" data-status={status}>
      <div className="body">
        <span className="sr-only">You: </span>
        {previews.length > 0 && (
          <div className="attachments">
            <div className="gallery" data-count={Math.min(previews.length, 4)}>{previews.map((each) => <span key={each} className="picture"><img src={each} alt="" /></span>)}</div>
          </div>
        )}
        {ids.length > previews.length && <p className="hint">{plural(ids.length - previews.length, "file")}</p>}
        {item.input.content && <MessageText content={item.input.content} />}
        <p className="meta"><time>{time(item.writtenAt)}</time><Ticks status={status} /></p>
        {item.failure && (
          <p className="failure" role="alert">
            {item.failure} <button className="link" onClick={() => outbox.retry(item.key)}>Try again</button>{" "}
            <button className="link" onClick={() => outbox.discard(item.key)}>Discard</button>
          </p>
        )}
      </div>
    </article>
  );
}

/** A message whose files are still on their way. */
export function HeldBubble({ held }: { held: HeldMessage }) {
  const { uploads } = useWorld();
  const files = useFiles(held.conversationId).files.filter(({ key }) => held.files.includes(key));
  const stuck = files.some(({ state }) => state === "failed");
  const pictures = files.filter(({ localPicture, state }) => localPicture && state !== "failed");
  const others = files.filter((each) => !pictures.includes(each));
  return (
    <article className="bubble own" data-status={stuck ? "failed" : "pending"}>
      <div className="body">
        <span className="sr-only">You: </span>
        {pictures.length > 0 && (
          <div className="attachments">
            <div className="gallery" data-count={Math.min(pictures.length, 4)}>{pictures.map((each) => <Sending key={each.key} item={each} />)}</div>
          </div>
        )}
        {others.length > 0 && <Tray files={others} />}
        {held.input.content && <MessageText content={held.input.content} />}
        <p className="meta"><time>{time(held.writtenAt)}</time><Ticks status={stuck ? "failed" : "pending"} /></p>
        {stuck && (
          <p className="failure" role="alert">
            Not sent: remove the file that failed, or <button className="link" onClick={() => uploads.discard(held.key)}>discard the message</button>.
          </p>
        )}
      </div>
    </article>
  );
}
