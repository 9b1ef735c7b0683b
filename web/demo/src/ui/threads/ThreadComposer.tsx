import type { Message } from "@confab/client";
import { useState } from "react";

import { Composer, type ComposerProps, type NewMessage } from "../messages/Composer";
import { RoomComposer } from "../Room";
import { useWorld } from "../world";
import type { Place } from "./usePlace";

interface Props extends Omit<ComposerProps, "send" | "people" | "mayMentionAll"> {
  parent: Message;
  place: Place;
  placeName: string;
}

/** Writes a reply, which may be shown in the conversation too. */
export function ThreadComposer({ parent, place, placeName, ...props }: Props) {
  const { client } = useWorld();
  const [broadcast, setBroadcast] = useState(false);
  const send = (reply: NewMessage) => {
    client.send(parent.conversationId, { ...reply, threadOf: parent.id, broadcast });
    setBroadcast(false);
  };
  const all = { ...props, send, label: "Reply", mayMentionAll: place.mayMentionAll };
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
