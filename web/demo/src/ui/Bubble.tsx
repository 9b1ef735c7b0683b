import { Fragment, type CSSProperties, type ReactNode } from "react";

import type { Outgoing } from "../confab/outbox";
import type { MessagePartsFragment, SessionPartsFragment } from "../gql";
import { Avatar } from "./Avatar";
import { hueOf, textOf, time } from "./format";
import { Menu, type MenuItem } from "./Menu";
import { Ticks, type Status } from "./Ticks";
import { useWorld } from "./world";

interface Props {
  message: MessagePartsFragment;
  session: SessionPartsFragment | null;
  /** True if the previous message is from the same person. */
  follows: boolean;
  status: Status;
  reply: (message: MessagePartsFragment) => void;
  edit: (message: MessagePartsFragment) => void;
  recall: (message: MessagePartsFragment) => void;
  info: (message: MessagePartsFragment) => void;
}

const RECALL_WITHIN_MS = 120_000;

export function Bubble({ message, session, follows, status, reply, edit, recall, info }: Props) {
  const { me } = useWorld();
  const { sender, replyTo } = message;
  if (message.contentType === "SYSTEM") return <article className="system" data-seq={message.seq}><span>{message.content}</span></article>;

  const own = sender.id === me;
  const group = session?.conversation.__typename === "Group" ? session.conversation : null;
  const recalled = message.state === "RECALLED";
  const rules = group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN";
  const item = (label: string, run: (message: MessagePartsFragment) => void, when: boolean): MenuItem[] => (when ? [{ label, run: () => run(message) }] : []);
  const items = [
    ...item("Reply", reply, !recalled),
    ...item("Edit", edit, own && !recalled),
    ...item("Recall", recall, !recalled && (rules || (own && Date.now() - Date.parse(message.createdAt) < RECALL_WITHIN_MS))),
    ...item("Info", info, own),
  ];
  const named = group && !own && !follows;
  return (
    <article className={["bubble", own ? "own" : "", group ? "grouped" : "", follows ? "follows" : "", recalled ? "recalled" : ""].join(" ")} data-seq={message.seq} data-status={own ? status : undefined}>
      {named && <Avatar id={sender.id} name={sender.displayName} small />}
      <div className="body">
        {named ? (
          <p className="sender" style={{ "--hue": hueOf(sender.id) } as CSSProperties}>{sender.displayName}</p>
        ) : (
          <span className="sr-only">{own ? "You" : sender.displayName}: </span>
        )}
        {replyTo && !recalled && (
          <blockquote style={{ "--hue": hueOf(replyTo.sender.id) } as CSSProperties}>
            <b>{replyTo.sender.id === me ? "You" : replyTo.sender.displayName}</b>
            <span>{textOf(replyTo)}</span>
          </blockquote>
        )}
        <p className="text" dir="auto">{recalled ? textOf(message) : marked(message)}</p>
        <p className="meta">
          {message.editCount > 0 && !recalled && <span>edited</span>}
          <time dateTime={message.createdAt}>{time(message.createdAt)}</time>
          {own && !recalled && <Ticks status={status} />}
        </p>
      </div>
      {items.length > 0 && <Menu label="Actions for message" icon="down" items={items} />}
    </article>
  );
}

/** The text, with highlighted mentions. */
function marked({ content, mentions, mentionsAll }: MessagePartsFragment): ReactNode {
  const names = [...mentions.map((each) => `@${each.displayName}`), ...(mentionsAll ? ["@everybody"] : [])];
  if (!names.length || !content) return content;
  const escaped = names.map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return content.split(new RegExp(`(${escaped.join("|")})`)).map((part, index) => (
    <Fragment key={index}>{names.includes(part) ? <b className="mentioned">{part}</b> : part}</Fragment>
  ));
}

/** A message that waits in the outbox, or that the server refused. */
export function PendingBubble({ item }: { item: Outgoing }) {
  const { outbox } = useWorld();
  const status = item.failure ? "failed" : "pending";
  return (
    <article className="bubble own" data-status={status}>
      <div className="body">
        <span className="sr-only">You: </span>
        <p className="text" dir="auto">{item.input.content}</p>
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
