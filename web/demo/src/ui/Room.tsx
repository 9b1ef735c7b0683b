import { useEffect, useState } from "react";

import { isRetryable } from "../confab/outbox";
import { RoomDocument, RoomEventsDocument } from "../gql";
import { Avatar } from "./Avatar";
import { MessageList } from "./MessageList";
import { go } from "./route";
import { BackButton, SearchHere } from "./search/buttons";
import { useHistory } from "./useHistory";
import { useBeginning, useTarget } from "./useTarget";
import { useAsked, useWatched, useWorld } from "./world";

interface Props {
  id: string;
  workspaceId?: string | null;
  subBiz: string | null;
  /** The message to show. */
  seq: number | null;
}

/** A channel, or a thread that the user does not follow: to read, as it grows. */
export function Room({ id, workspaceId = null, subBiz, seq }: Props) {
  const { client, tell } = useWorld();
  const [{ data, error }, again] = useAsked({ query: RoomDocument, variables: { id } });
  const room = data?.conversation;
  const rev = room?.__typename === "Channel" || room?.__typename === "Thread" ? room.rev : undefined;
  const beginning = useBeginning(seq);
  const { messages, loaded, place, loadOlder, loadNewer, ...history } = useHistory(id, null, !!room, beginning?.seq ?? null);
  const { target, fromEnd, show, toNewest } = useTarget(seq, beginning, history);
  const watched = useWatched();
  const [ended, setEnded] = useState(false);

  const known = rev !== undefined;
  useEffect(() => {
    if (!known) return;
    const events = client.subscription(RoomEventsDocument, { channels: [{ id, rev }] });
    return events.subscribe((event) => event.data?.channelEvents.__typename === "AccessEnded" && setEnded(true)).unsubscribe;
  }, [id, known]);

  const leave = () => go({ workspaceId, subBiz });
  const jump = async (to: number) => {
    if (!(await show({ seq: to }))) tell("The quoted message didn't load. Try again when you are online.");
  };

  if (!room && error && isRetryable(error)) return <main className="nothing-open"><p role="alert">The conversation didn't load. <button className="link" onClick={() => again({ requestPolicy: "network-only" })}>Try again</button></p></main>;
  if (ended || (data && !room)) return <main className="nothing-open"><h2>There is no such conversation</h2><p><a href="#/">Back to all sessions</a></p></main>;
  if (!room) return <main className="nothing-open" role="status" aria-label="Loading" />;

  const channel = room.__typename === "Channel" ? room : null;
  const thread = room.__typename === "Thread" ? room : null;
  return (
    <main className="conversation" aria-label={room.title} onKeyDown={(event) => event.key === "Escape" && leave()}>
      <header>
        <BackButton leave={leave} />
        <Avatar id={id} name={room.title} sign={channel ? "hash" : "reply"} />
        <div className="about">
          <h2>{room.title}</h2>
          <p>{channel ? [channel.workspace.name, channel.topic].filter(Boolean).join(" · ") : "Thread"}</p>
        </div>
        <SearchHere conversationId={id} />
      </header>
      <MessageList
        key={place}
        messages={messages}
        loaded={loaded}
        outgoing={[]}
        heldMessages={[]}
        session={null}
        showsSenders
        line={null}
        watched={watched}
        target={target}
        onSeen={() => {}}
        fromEnd={fromEnd}
        loadOlder={loadOlder}
        loadNewer={loadNewer}
        goToNewest={toNewest}
        jump={(to) => void jump(to)}
      />
      <p className="frozen">
        {thread && <><a href={`#/c/${thread.parent.conversationId}/${thread.parent.seq}`}>Show the message it belongs to.</a>{" "}</>}
        The demo shows {channel ? "channels" : "this thread"} to read only.
      </p>
    </main>
  );
}
