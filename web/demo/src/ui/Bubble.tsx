import { useRef, type CSSProperties, type MouseEvent } from "react";

import type { Outgoing } from "../confab/outbox";
import type { HeldMessage } from "../confab/uploads";
import type { MessagePartsFragment, SessionPartsFragment } from "../gql";
import { Avatar } from "./Avatar";
import { Attachments } from "./files/Attachments";
import { Embeds } from "./files/Embeds";
import { Sending, Tray } from "./files/Tray";
import { useFiles } from "./files/useFiles";
import { hueOf, plural, textOf, time } from "./format";
import { Menu, type MenuItem } from "./Menu";
import { Ticks, type Status } from "./Ticks";
import { Words } from "./Words";
import { useWorld } from "./world";

type Action = (message: MessagePartsFragment) => void;

/** Without an action, its menu item is not there. */
export interface MessageActions {
  reply?: Action;
  edit?: Action;
  recall?: Action;
  /** Removes the link previews. */
  suppress?: Action;
  info?: Action;
  /** Shows the message with this seq. */
  jump: (seq: number) => void;
}

interface Props extends MessageActions {
  message: MessagePartsFragment;
  session: SessionPartsFragment | null;
  /** Messages of others have the sender's name and picture. */
  showsSenders: boolean;
  /** True if the previous message is from the same person. */
  follows: boolean;
  /** Highlighted for a moment. */
  lit: boolean;
  status: Status;
}

const RECALL_WITHIN_MS = 120_000;

export function Bubble({ message, session, showsSenders, follows, lit, status, reply, edit, recall, suppress, info, jump }: Props) {
  const { me } = useWorld();
  const menuWasOpen = useRef(false);
  const { sender, replyTo } = message;
  if (message.contentType === "SYSTEM") return <article className={lit ? "system lit" : "system"} data-seq={message.seq} tabIndex={-1}><span>{message.content}</span></article>;

  const own = sender.id === me;
  const group = session?.conversation.__typename === "Group" ? session.conversation : null;
  const recalled = message.state === "RECALLED";
  const rules = group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN";
  const item = (label: string, run: Action | undefined, when: boolean): MenuItem[] => (run && when ? [{ label, run: () => run(message) }] : []);
  const items = [
    ...item("Reply", reply, !recalled),
    ...item("Edit", edit, own && !recalled),
    ...item("Recall", recall, !recalled && (rules || (own && Date.now() - Date.parse(message.createdAt) < RECALL_WITHIN_MS))),
    ...item("Remove link previews", suppress, own && message.embeds.length > 0 && !sender.isBot),
    ...item("Info", info, own),
  ];
  const named = showsSenders && !own && !follows;

  // Without a pointing device the menu's button is not displayed: a tap on the message opens the menu.
  const openMenu = (event: MouseEvent<HTMLElement>) => {
    if (!matchMedia("(hover: none)").matches || menuWasOpen.current || (event.target as HTMLElement).closest("a, button, video, audio, dialog")) return;
    event.currentTarget.parentElement!.querySelector<HTMLElement>(".menu-button")?.click();
  };
  return (
    <article className={["bubble", own ? "own" : "", showsSenders ? "grouped" : "", follows ? "follows" : "", recalled ? "recalled" : "", lit ? "lit" : ""].join(" ")} tabIndex={-1} data-seq={message.seq} data-status={own ? status : undefined}>
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
        {!recalled && message.attachments.length > 0 && <Attachments files={message.attachments} />}
        {(recalled || message.content) && <p className="text" dir="auto">{recalled ? textOf(message) : <Words {...message} />}</p>}
        {!recalled && message.embeds.length > 0 && <Embeds embeds={message.embeds} />}
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
        {item.input.content && <p className="text" dir="auto"><Words content={item.input.content} /></p>}
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
        {held.input.content && <p className="text" dir="auto"><Words content={held.input.content} /></p>}
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
