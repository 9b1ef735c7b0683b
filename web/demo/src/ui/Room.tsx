import type { Message } from "@confab/client";
import { useEffect, useRef, useState } from "react";

import { isRetryable } from "../confab/outbox";
import { AddReactionDocument, RecallMessageDocument, RemoveReactionDocument, RoomDocument, RoomEventsDocument, SuppressEmbedsDocument } from "../gql";
import { Avatar } from "./Avatar";
import { Composer } from "./Composer";
import { useDrop, useFiles } from "./files/useFiles";
import { MessageList } from "./MessageList";
import { ReportDialog } from "./moderation/ReportDialog";
import { rightsFrom } from "./moderation/rights";
import { PinnedButton } from "./pins/PinnedButton";
import { usePinning } from "./pins/usePins";
import { useFollowed } from "./presence/usePresence";
import { closeThread, go } from "./route";
import { BackButton, SearchHere } from "./search/buttons";
import { threadOf } from "./threads/words";
import { useDo } from "./useDo";
import { useHistory } from "./useHistory";
import { useMarkRead, useNewMessagesLine } from "./useReading";
import { useBeginning, useTarget } from "./useTarget";
import { ChannelBell } from "./workspaces/ChannelBell";
import { EmptyChannel } from "./workspaces/EmptyChannel";
import { FrozenChannel } from "./workspaces/FrozenChannel";
import { useWorkspace } from "./workspaces/useWorkspace";
import { useAsked, useOutbox, useWatched, useWorld } from "./world";

interface Props {
  id: string;
  workspaceId?: string | null;
  subBiz: string | null;
  /** The message to show. */
  seq: number | null;
  /** The message whose thread is open. */
  threadSeq: number | null;
  /** The thread covers the channel. */
  covered: boolean;
}

export function Room({ id, workspaceId = null, subBiz, seq, threadSeq, covered }: Props) {
  const { client, me, tell, confirm, workspaces } = useWorld();
  const run = useDo();
  const [{ data, error }, again] = useAsked({ query: RoomDocument, variables: { id } });
  const room = data?.conversation;
  const channel = room?.__typename === "Channel" ? room : null;
  const { rev, session = null } = channel ?? {};
  const beginning = useBeginning(seq, threadSeq);
  const { messages, loaded, place, loadOlder, loadNewer, ...history } = useHistory(id, session, !!room, beginning?.seq ?? null);
  const { target, fromEnd, show, toNewest } = useTarget(seq, beginning, history);
  const live = !loadNewer;
  const outgoing = useOutbox(id).filter((each) => !messages.some((message) => message.idempotencyKey === each.key && message.sender.id === me));
  const { heldMessages } = useFiles(id);
  useFollowed(messages.map(({ sender }) => sender.id));
  const watched = useWatched() && !covered;
  const markRead = useMarkRead(session, watched);
  const [line, see] = useNewMessagesLine({ me, session, messages, outgoing, ready: loaded, live });
  const [ended, setEnded] = useState(false);
  const [replying, setReplying] = useState<Message | null>(null);
  const [editing, setEditing] = useState<Message | null>(null);
  const [reported, setReported] = useState<Message | null>(null);
  const composer = useRef<HTMLTextAreaElement>(null);
  const may = rightsFrom(channel?.viewerPermissions);
  const mayWrite = may("SEND_MESSAGES") && !channel?.isArchived;
  const mayStartThread = may("SEND_THREADS") && may("CREATE_THREADS") && !channel?.isArchived;
  const pin = usePinning();
  const mayPin = may("PIN_MESSAGES") && !channel?.isArchived;
  const drop = useDrop(id, mayWrite && !editing);

  const known = rev !== undefined;
  useEffect(() => {
    if (!known) return;
    const events = client.subscription(RoomEventsDocument, { channels: [{ id, rev }] });
    return events.subscribe((event) => event.data?.channelEvents.__typename === "AccessEnded" && setEnded(true)).unsubscribe;
  }, [id, known]);
  useEffect(() => {
    if (session) workspaces.noteSession(id, session);
  }, [session?.activeTs]);

  const leave = () => go({ workspaceId, subBiz });
  const jump = async (to: number) => {
    if (!(await show({ seq: to }))) tell("The message didn't load. Try again when you are online.");
  };
  const recall = async (message: Message) => {
    const question = { title: "Recall this message?", text: "Its text disappears for everybody. This cannot be undone.", verb: "Recall" };
    if (await confirm(question)) void run(RecallMessageDocument, { id: message.id });
  };
  const done = () => (setReplying(null), setEditing(null));
  const openThread = (message: Message) => go({ workspaceId, subBiz, conversationId: threadOf(message) });

  if (!room && error && isRetryable(error)) return <main className="nothing-open"><p role="alert">The conversation didn't load. <button className="link" onClick={() => again({ requestPolicy: "network-only" })}>Try again</button></p></main>;
  if (ended || (data && !channel)) return <main className="nothing-open"><h2>There is no such conversation</h2><p><a href="#/">Back to all sessions</a></p></main>;
  if (!channel) return <main className="nothing-open" role="status" aria-label="Loading" />;

  return (
    <main className={drop.over ? "conversation dropping" : "conversation"} aria-label={channel.title} {...drop.on} onKeyDown={(event) => event.key === "Escape" && (closeThread() || leave())}>
      <header>
        <BackButton leave={leave} />
        <Avatar id={id} name={channel.title} sign="hash" />
        <div className="about">
          <h2>{channel.title}</h2>
          <p>{[channel.workspace.name, channel.topic].filter(Boolean).join(" · ")}</p>
        </div>
        <PinnedButton conversationId={id} jump={(seq) => void jump(seq)} mayPin={mayPin} />
        <ChannelBell id={id} name={channel.name} workspaceId={channel.workspace.id} />
        <SearchHere conversationId={id} />
      </header>
      <MessageList
        key={place}
        messages={messages}
        loaded={loaded}
        outgoing={live ? outgoing : []}
        heldMessages={live ? heldMessages : []}
        session={null}
        unread={session?.unreadCount}
        showsSenders
        line={line}
        watched={watched}
        target={target}
        onSeen={(seq) => (markRead(seq), see(seq))}
        fromEnd={fromEnd}
        loadOlder={loadOlder}
        loadNewer={loadNewer}
        goToNewest={toNewest}
        react={mayWrite ? ({ id: messageId }, emoji, isOwn) => void (isOwn ? run(RemoveReactionDocument, { messageId, emoji }) : run(AddReactionDocument, { messageId, emoji })) : undefined}
        openThread={openThread}
        startThread={mayStartThread ? openThread : undefined}
        reply={mayWrite ? (message) => (setReplying(message), setEditing(null), composer.current?.focus()) : undefined}
        edit={mayWrite ? (message) => (setEditing(message), setReplying(null), composer.current?.focus()) : undefined}
        pin={mayPin ? (message) => void pin(message) : undefined}
        recall={(message) => void recall(message)}
        mayRecallAll={may("MANAGE_MESSAGES")}
        empty={<EmptyChannel name={channel.name} topic={channel.topic} mayWrite={mayWrite} />}
        suppress={({ id }) => void run(SuppressEmbedsDocument, { id })}
        jump={(to) => void jump(to)}
        report={setReported}
      />
      {reported && <ReportDialog message={reported} close={() => setReported(null)} />}
      {mayWrite ? (
        <RoomComposer
          workspaceId={channel.workspace.id}
          box={composer}
          conversationId={id}
          to={{ conversationId: id }}
          mayMentionAll={may("MENTION_EVERYONE")}
          replying={replying}
          editing={editing}
          sent={() => live || toNewest()}
          done={done}
          editLast={() => {
            const last = messages.findLast((each) => each.sender.id === me && each.state === "NORMAL" && each.contentType !== "SYSTEM");
            if (last) setEditing(last);
          }}
        />
      ) : (
        <FrozenChannel channel={channel} mayManage={may("MANAGE_CHANNELS")} />
      )}
    </main>
  );
}

type RoomComposerProps = Omit<Parameters<typeof Composer>[0], "people"> & { workspaceId: string };

/** Members of the workspace may be mentioned. */
export function RoomComposer({ workspaceId, ...props }: RoomComposerProps) {
  const people = useWorkspace(workspaceId)?.members?.edges.map(({ node }) => node.user) ?? [];
  return <Composer people={people} {...props} />;
}
