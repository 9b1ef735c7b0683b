import type { Message } from "@confab/client";
import { useView } from "@confab/client/react";
import { useState } from "react";

import { errorText } from "../../confab/errorText";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { day, textOf, time } from "../format";
import { Icon } from "../Icon";
import { useLatestUser } from "../presence/usePresence";
import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";
import { usePinning } from "./usePinning";

interface RowProps {
  jump: (seq: number) => void;
  mayPin: boolean;
}

/** The pinned messages of a conversation, the latest pin first. */
export function PinnedDialog({ conversationId, close, ...rowProps }: RowProps & { conversationId: string; close: () => void }) {
  const { client } = useApp();
  const attempt = useAttempt();
  const pinned = client.pinnedMessages(conversationId);
  const { status, messages, hasMore, error } = useView(pinned);
  const [isLoading, setIsLoading] = useState(false);
  const loadMore = async () => {
    setIsLoading(true);
    await attempt(pinned.loadMore());
    setIsLoading(false);
  };
  return (
    <Dialog title="Pinned messages" close={close}>
      {status === "failed" && <p role="alert">The list didn't load. {errorText(error)}</p>}
      {status === "loading" && <p role="status">Loading…</p>}
      {status === "ready" && !messages.length && <p className="hint">{rowProps.mayPin ? "Nothing is pinned. To pin a message, open its menu." : "Nothing is pinned."}</p>}
      <ul className="pinned-messages" aria-label="Pinned messages">
        {messages.map((each) => <PinnedMessage key={each.id} message={each} {...rowProps} />)}
        {hasMore && <li><button className="button quiet" disabled={isLoading} onClick={() => void loadMore()}>{isLoading ? "Loading…" : "Show more"}</button></li>}
      </ul>
    </Dialog>
  );
}

function PinnedMessage({ message, jump, mayPin }: RowProps & { message: Message }) {
  const { me } = useApp();
  const pin = usePinning();
  const sender = useLatestUser(message.sender);
  const { seq, createdAt } = message;
  const name = sender.id === me ? "You" : sender.displayName;
  return (
    <li>
      <button className="pinned-message" onClick={() => jump(seq)}>
        <Avatar id={sender.id} name={sender.displayName} url={sender.avatarUrl} small />
        <span className="found">
          <span className="pinned-head"><b>{name}</b> <time dateTime={createdAt}>{day(createdAt)}, {time(createdAt)}</time></span>
          <span className="pinned-text" dir="auto">{textOf(message)}</span>
          <span className="pinned-jump">Jump to message</span>
        </span>
      </button>
      {mayPin && <button className="icon" aria-label={`Unpin the message of ${sender.displayName}`} title="Unpin" onClick={() => void pin(message)}><Icon name="pin-off" /></button>}
    </li>
  );
}
