import type { Message } from "@confab/client";

import { useApp } from "../appContext";
import "./reactions.css";

interface Props {
  reactions: Message["reactions"];
  /** Adds one's own reaction, or removes it. Null: the user may not react here. */
  toggle: ((emoji: string, isOwn: boolean) => void) | null;
}

/** The reactions of a message. A click joins one, or takes one's own back. */
export function Reactions({ reactions, toggle }: Props) {
  const { me } = useApp();
  if (!reactions.length) return null;
  return (
    <div className="reactions" role="group" aria-label="Reactions">
      {reactions.map(({ emoji, count, users, viewerReacted }) => {
        const others = users.filter(({ id }) => id !== me).map(({ displayName }) => displayName);
        const names = [...(viewerReacted ? ["You"] : []), ...others];
        const more = count - names.length;
        const who = [...names, ...(more > 0 ? [`${more} more`] : [])].join(", ");
        return (
          <button key={emoji} aria-pressed={viewerReacted} aria-label={`${emoji} ${count}: ${who}`} title={who} disabled={!toggle} onClick={() => toggle?.(emoji, viewerReacted)}>
            <span>{emoji}</span> {count}
          </button>
        );
      })}
    </div>
  );
}
