import { useRef, type CSSProperties, type MouseEvent } from "react";

import type { Outgoing } from "../confab/outbox";
import type { MessagePartsFragment, SessionPartsFragment } from "../gql";
import { Avatar } from "./Avatar";
import { hueOf, textOf, time } from "./format";
import { Menu, type MenuItem } from "./Menu";
import { Ticks, type Status } from "./Ticks";
import { Words } from "./Words";
import { useWorld } from "./world";

type Action = (message: MessagePartsFragment) => void;

export interface MessageActions {
  reply: Action;
  edit: Action;
  recall: Action;
  info: Action;
  /** Shows the message with this seq. */
  jump: (seq: number) => void;
}

interface Props extends MessageActions {
  message: MessagePartsFragment;
  session: SessionPartsFragment | null;
  /** True if the previous message is from the same person. */
  follows: boolean;
  /** Highlighted for a moment. */
  lit: boolean;
  status: Status;
}

const RECALL_WITHIN_MS = 120_000;

export function Bubble({ message, session, follows, lit, status, reply, edit, recall, info, jump }: Props) {
  const { me } = useWorld();
  const menuWasOpen = useRef(false);
  const { sender, replyTo } = message;
  if (message.contentType === "SYSTEM") return <article className={lit ? "system lit" : "system"} data-seq={message.seq} tabIndex={-1}><span>{message.content}</span></article>;

  const own = sender.id === me;
  const group = session?.conversation.__typename === "Group" ? session.conversation : null;
  const recalled = message.state === "RECALLED";
  const rules = group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN";
  const item = (label: string, run: Action, when: boolean): MenuItem[] => (when ? [{ label, run: () => run(message) }] : []);
  const items = [
    ...item("Reply", reply, !recalled),
    ...item("Edit", edit, own && !recalled),
    ...item("Recall", recall, !recalled && (rules || (own && Date.now() - Date.parse(message.createdAt) < RECALL_WITHIN_MS))),
    ...item("Info", info, own),
  ];
  const named = group && !own && !follows;

  // Without a pointing device the menu's button is not displayed: a tap on the message opens the menu.
  const openMenu = (event: MouseEvent<HTMLElement>) => {
    if (!matchMedia("(hover: none)").matches || menuWasOpen.current || (event.target as HTMLElement).closest("a, button")) return;
    event.currentTarget.parentElement!.querySelector<HTMLElement>(".menu-button")?.click();
  };
  return (
    <article className={["bubble", own ? "own" : "", group ? "grouped" : "", follows ? "follows" : "", recalled ? "recalled" : "", lit ? "lit" : ""].join(" ")} tabIndex={-1} data-seq={message.seq} data-status={own ? status : undefined}>
      {named && <Avatar id={sender.id} name={sender.displayName} url={sender.avatarUrl} small />}
      <div className="body" onPointerDown={() => (menuWasOpen.current = !!document.querySelector(".menu"))} onClick={openMenu}>
        {named ? (
          <p className="sender" style={{ "--hue": hueOf(sender.id) } as CSSProperties}>{sender.displayName}</p>
        ) : (
          <span className="sr-only">{own ? "You" : sender.displayName}: </span>
        )}
        {replyTo && !recalled && (
          <blockquote>
            <button style={{ "--hue": hueOf(replyTo.sender.id) } as CSSProperties} title="Show the quoted message" onClick={() => jump(replyTo.seq)}>
              <b>{replyTo.sender.id === me ? "You" : replyTo.sender.displayName}</b>
              <span>{textOf(replyTo)}</span>
            </button>
          </blockquote>
        )}
        <p className="text" dir="auto">{recalled ? textOf(message) : <Words {...message} />}</p>
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

/** A message that waits in the outbox, or that the server refused. */
export function PendingBubble({ item }: { item: Outgoing }) {
  const { outbox } = useWorld();
  const status = item.failure ? "failed" : "pending";
  return (
    <article className="bubble own" data-status={status}>
      <div className="body">
        <span className="sr-only">You: </span>
        <p className="text" dir="auto"><Words content={item.input.content} /></p>
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
