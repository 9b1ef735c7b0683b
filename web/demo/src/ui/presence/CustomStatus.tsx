import type { Presence } from "@confab/client";

import { usePresence } from "./usePresence";

type Status = Presence["customStatus"];

/** A person's emoji next to their name; its text is the name of the picture. */
export function StatusEmoji({ status }: { status: Status | undefined }) {
  if (!status) return null;
  const text = status.text ?? "Status";
  return <span className="status-emoji" role="img" aria-label={text} title={text}>{status.emoji ?? "💬"}</span>;
}

export const StatusEmojiOf = ({ userId }: { userId: string }) => <StatusEmoji status={usePresence(userId)?.customStatus} />;
