import type { Message } from "@confab/client";
import { useState } from "react";

import { Composer, type ComposerProps, type NewMessage } from "../messages/Composer";
import { ChannelComposer } from "../ChannelView";
import { useApp } from "../appContext";
import type { ParentConversation } from "./useParentConversation";

interface Props extends Omit<ComposerProps, "send" | "people" | "mayMentionAll"> {
  parent: Message;
  conversation: ParentConversation;
  conversationName: string;
}

/** Writes a reply, which may be shown in the conversation too. */
export function ThreadComposer({ parent, conversation, conversationName, ...props }: Props) {
  const { client } = useApp();
  const [broadcast, setBroadcast] = useState(false);
  const send = (reply: NewMessage) => {
    client.send(parent.conversationId, { ...reply, threadOf: parent.id, broadcast });
    setBroadcast(false);
  };
  const all = { ...props, send, label: "Reply", mayMentionAll: conversation.mayMentionAll };
  return (
    <div className="thread-composer">
      {conversation.workspaceId ? <ChannelComposer workspaceId={conversation.workspaceId} {...all} /> : <Composer people={conversation.people} {...all} />}
      {conversation.mayBroadcast && (
        <label className="broadcast">
          <input type="checkbox" checked={broadcast} disabled={!!props.editing} onChange={({ target }) => setBroadcast(target.checked)} />
          <span>Also send to {conversationName || "the conversation"}</span>
        </label>
      )}
    </div>
  );
}
