import type { Message, User } from "@confab/client";

import { textOf } from "../format";
import { useApp } from "../appContext";

interface Props {
  message: Message;
  /** With the newest name. */
  sender: User;
  jump: (seq: number) => void;
}

/** A SYSTEM message. If it announces a pin, it names the person and links to the pinned message. */
export function SystemText({ message: { content, systemEvent, replyTo }, sender, jump }: Props) {
  const { me } = useApp();
  if (systemEvent?.kind !== "MESSAGE_PINNED" || !replyTo) return <span>{content}</span>;
  return (
    <span className="pin-announcement">
      <bdi>{sender.id === me ? "You" : sender.displayName}</bdi> pinned
      <button className="link" title="Show the pinned message" onClick={() => jump(replyTo.seq)}>{textOf(replyTo)}</button>
    </span>
  );
}
