import { useView } from "@confab/client/react";
import { useState } from "react";

import { plural } from "../format";
import { Icon } from "../Icon";
import { useApp } from "../appContext";
import { PinnedDialog } from "./PinnedDialog";
import "./pins.css";

interface Props {
  conversationId: string;
  /** Shows the message with this seq. */
  jump: (seq: number) => void;
  /** Whether the user may unpin. */
  mayPin: boolean;
}

/** In the header of a conversation: opens the list of pinned messages, and shows their number. Absent while nothing is pinned. */
export function PinnedButton({ conversationId, jump, mayPin }: Props) {
  const { client } = useApp();
  const { messages, hasMore } = useView(client.pinnedMessages(conversationId));
  const [open, setOpen] = useState(false);
  if (!messages.length && !open) return null;
  const label = plural(messages.length, "pinned message");
  return (
    <>
      <button className="icon pinned-button" aria-label={label} title={label} onClick={() => setOpen(true)}>
        <Icon name="pin" />
        <span aria-hidden="true">{messages.length}{hasMore && "+"}</span>
      </button>
      {open && <PinnedDialog conversationId={conversationId} jump={(seq) => (setOpen(false), jump(seq))} mayPin={mayPin} close={() => setOpen(false)} />}
    </>
  );
}
