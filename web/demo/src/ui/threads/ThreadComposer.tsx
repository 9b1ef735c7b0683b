import { useState } from "react";

import { Composer } from "../Composer";
import { RoomComposer } from "../Room";
import type { usePlace } from "./usePlace";

type ComposerProps = Parameters<typeof Composer>[0];

interface Props extends Pick<ComposerProps, "box" | "conversationId" | "replying" | "editing" | "sent" | "done" | "editLast"> {
  parentId: string;
  place: ReturnType<typeof usePlace>;
  placeName: string;
}

/** Writes a reply, which may be shown in the conversation too. */
export function ThreadComposer({ parentId, place, placeName, sent, ...props }: Props) {
  const [broadcast, setBroadcast] = useState(false);
  const all = {
    ...props,
    to: { threadOf: parentId, broadcast },
    label: "Reply",
    mayMentionAll: place.mayMentionAll,
    sent: () => (setBroadcast(false), sent()),
  };
  return (
    <div className="thread-composer">
      {place.workspaceId ? <RoomComposer workspaceId={place.workspaceId} {...all} /> : <Composer people={place.people} {...all} />}
      {place.mayBroadcast && (
        <label className="broadcast">
          <input type="checkbox" checked={broadcast} disabled={!!props.editing} onChange={({ target }) => setBroadcast(target.checked)} />
          <span>Also send to {placeName || "the conversation"}</span>
        </label>
      )}
    </div>
  );
}
