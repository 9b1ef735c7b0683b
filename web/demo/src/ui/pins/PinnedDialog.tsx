import type { Message } from "@confab/client";
import { useState } from "react";

import { PinnedMessagesDocument } from "../../gql";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { day, textOf, time } from "../format";
import { Icon } from "../Icon";
import { useAsked, useWorld } from "../world";
import { usePinned, usePinning } from "./usePins";

interface RowProps {
  jump: (seq: number) => void;
  mayPin: boolean;
}

/** The pinned messages of a conversation, the latest pin first. */
export function PinnedDialog({ conversationId, close, ...rowProps }: RowProps & { conversationId: string; close: () => void }) {
  const { messages, more, failed, again } = usePinned(conversationId);
  return (
    <Dialog title="Pinned messages" close={close}>
      {failed && <p role="alert">The list didn't load. <button className="link" onClick={again}>Try again</button></p>}
      {!messages && !failed && <p role="status">Loading…</p>}
      {messages?.length === 0 && <p className="hint">{rowProps.mayPin ? "Nothing is pinned. To pin a message, open its menu." : "Nothing is pinned."}</p>}
      <ul className="pinned-messages" aria-label="Pinned messages">
        {messages?.map((each) => <PinnedMessage key={each.id} message={each} {...rowProps} />)}
        {more && <MorePinned conversationId={conversationId} after={more} {...rowProps} />}
      </ul>
    </Dialog>
  );
}

/** The next page of the list, when it is wanted. */
function MorePinned({ conversationId, after, ...rowProps }: RowProps & { conversationId: string; after: string }) {
  const [wanted, setWanted] = useState(false);
  const [{ data }] = useAsked({ query: PinnedMessagesDocument, variables: { conversationId, after }, pause: !wanted });
  const page = data?.pinnedMessages;
  if (!page) return <li><button className="button quiet" disabled={wanted} onClick={() => setWanted(true)}>{wanted ? "Loading…" : "Show more"}</button></li>;
  return (
    <>
      {page.edges.map(({ node }) => <PinnedMessage key={node.id} message={node} {...rowProps} />)}
      {page.pageInfo.hasNextPage && <MorePinned conversationId={conversationId} after={page.pageInfo.endCursor!} {...rowProps} />}
    </>
  );
}

function PinnedMessage({ message, jump, mayPin }: RowProps & { message: Message }) {
  const { me } = useWorld();
  const pin = usePinning();
  const { sender, seq, createdAt } = message;
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
