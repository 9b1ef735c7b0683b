import type { Message } from "@confab/client";

import { textOf } from "../format";
import { useWorld } from "../world";

/** A SYSTEM message. If it announces a pin, it names the person and links to the pinned message. */
export function SystemText({ message: { content, sender, systemEvent, replyTo }, jump }: { message: Message; jump: (seq: number) => void }) {
  const { me } = useWorld();
  if (systemEvent?.kind !== "MESSAGE_PINNED" || !replyTo) return <span>{content}</span>;
  return (
    <span className="pin-announcement">
      <bdi>{sender.id === me ? "You" : sender.displayName}</bdi> pinned
      <button className="link" title="Show the pinned message" onClick={() => jump(replyTo.seq)}>{textOf(replyTo)}</button>
    </span>
  );
}
