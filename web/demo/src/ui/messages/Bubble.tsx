import type { Message } from "@confab/client";
import { useRef, useState, type CSSProperties } from "react";

import { Avatar } from "../Avatar";
import { useIsBlocked } from "../blocking/useBlocks";
import { Attachments } from "../files/Attachments";
import { Embeds } from "../files/Embeds";
import { hueOf, textOf, time } from "../format";
import { Icon } from "../Icon";
import { Menu, type MenuItem } from "../Menu";
import { SystemText } from "../pins/SystemText";
import { useLatestUser } from "../presence/usePresence";
import { EmojiPicker } from "../reactions/EmojiPicker";
import { Reactions } from "../reactions/Reactions";
import { MessageText } from "../text/MessageText";
import { ThreadLine, ThreadOrigin } from "../threads/ThreadLine";
import { Ticks, type Status } from "../Ticks";
import { useLongPress } from "../useLongPress";
import { useApp } from "../appContext";
import { useMessageActions } from "./messageActions";

interface Props {
  message: Message;
  /** Messages of others have the sender's name and picture. */
  showsSenders: boolean;
  /** True if the previous message is from the same person. */
  follows: boolean;
  /** Highlighted for a moment. */
  isHighlighted: boolean;
  status: Status;
  /** The number of messages; -1 if it is not known. */
  setSize: number;
  /** The Tab key goes to this message. */
  isTabStop: boolean;
}

const RECALL_WITHIN_MS = 120_000;

export function Bubble({ message, showsSenders, follows, isHighlighted, status, setSize, isTabStop }: Props) {
  const { me, client, showToast } = useApp();
  const actions = useMessageActions();
  const { react, openThread, jump } = actions;
  const article = useRef<HTMLElement>(null);
  /** The element next to which an emoji is chosen. */
  const [picking, setPicking] = useState<HTMLElement | null>(null);
  const [revealed, setRevealed] = useState(false);
  const isBlocked = useIsBlocked(message.sender.id) ?? message.isFromBlocked;
  const sender = useLatestUser(message.sender);
  const quoted = useLatestUser(message.replyTo?.sender);
  const { replyTo } = message;
  const menuButton = () => article.current!.querySelector<HTMLElement>(".menu-button");
  // Links have their own menu.
  const longPress = useLongPress(() => menuButton()?.click(), { except: "a, video, audio" });
  // The parent message above a thread has seq 0: it is not one of the replies, so it cannot be quoted there.
  const isParent = message.seq === 0;
  const reply = isParent ? undefined : actions.reply;
  const position = !isParent ? { "aria-posinset": message.seq, "aria-setsize": setSize } : {};
  const articleProps = { "data-seq": message.seq, ...position, tabIndex: isTabStop ? 0 : -1 };
  if (message.contentType === "SYSTEM") return <article className={isHighlighted ? "system highlighted" : "system"} {...articleProps}><SystemText message={message} sender={sender} jump={jump} /></article>;

  // In a private conversation everything is from them.
  if (isBlocked && showsSenders && !revealed) {
    return (
      <article className="system" {...articleProps}>
        <span>Message from {sender.displayName}, blocked by you <button className="link" onClick={() => setRevealed(true)}>Show</button></span>
      </article>
    );
  }

  const own = sender.id === me;
  const recalled = message.state === "RECALLED";
  const item = (label: string, run: ((message: Message) => void) | undefined, when: boolean): MenuItem[] => (run && when ? [{ label, run: () => run(message) }] : []);
  const items = [
    ...item("React", react && (() => setPicking(menuButton())), !recalled),
    ...item("Reply", reply, !recalled),
    ...item(message.isPinned ? "Unpin" : "Pin", actions.pin, !recalled),
    ...item("Reply in thread", actions.startThread ?? (message.thread ? openThread : undefined), !recalled || !!message.thread),
    ...item("Edit", actions.edit, own && !recalled),
    ...item("Recall", actions.recall, !recalled && (actions.mayRecallAll || (own && client.api.now() - Date.parse(message.createdAt) < RECALL_WITHIN_MS))),
    ...item("Remove link previews", actions.suppress, own && message.embeds.length > 0 && !sender.isBot),
    // Browsers offer it on secure pages only.
    ...item("Copy text", ({ content }) => void navigator.clipboard.writeText(content ?? "").catch(() => showToast("The text could not be copied.")), !!navigator.clipboard && !recalled && !!message.content),
    ...item("Info", actions.info, own),
    ...item("Report", actions.report, !own && !recalled),
  ];
  const choose = (emoji: string) => react?.(message, emoji, message.reactions.some((each) => each.emoji === emoji && each.viewerReacted));
  const named = showsSenders && !own && !follows;

  return (
    <article ref={article} className={["bubble", own ? "own" : "", showsSenders ? "grouped" : "", follows ? "follows" : "", recalled ? "recalled" : "", isHighlighted ? "highlighted" : ""].join(" ")} {...articleProps} data-status={own ? status : undefined}>
      {named && <Avatar id={sender.id} name={sender.displayName} url={sender.avatarUrl} small />}
      <div className="body" {...longPress}>
        {named ? (
          <p className="sender" style={{ "--hue": hueOf(sender.id) } as CSSProperties}>{sender.displayName}</p>
        ) : (
          <span className="sr-only">{own ? "You" : sender.displayName}: </span>
        )}
        {message.broadcastOf && openThread && <ThreadOrigin open={() => openThread(message)} />}
        {replyTo && quoted && !recalled && (
          <blockquote>
            <button style={{ "--hue": hueOf(quoted.id) } as CSSProperties} title="Show the quoted message" onClick={() => jump(replyTo.seq)}>
              <b>{quoted.id === me ? "You" : quoted.displayName}</b>
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
