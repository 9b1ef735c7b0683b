import type { Message } from "@confab/client";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

import { AddReactionDocument, RecallMessageDocument, RemoveReactionDocument, SuppressEmbedsDocument } from "../../gql";
import { Bubble } from "../Bubble";
import { useDrop, useFiles } from "../files/useFiles";
import { day, textOf } from "../format";
import { Icon } from "../Icon";
import { Menu } from "../Menu";
import { MessageList } from "../MessageList";
import { ReportDialog } from "../moderation/ReportDialog";
import { closeThread, go, pathTo, useEntry } from "../route";
import { statusOf } from "../Ticks";
import { useDo } from "../useDo";
import { useHistory } from "../useHistory";
import { useMarkRead, useNewMessagesLine } from "../useReading";
import { useTarget, type Target } from "../useTarget";
import { useOutbox, useWatched, useWorld } from "../world";
import { ThreadComposer } from "./ThreadComposer";
import { usePlace, usePlaceName } from "./usePlace";
import { useThread } from "./useThread";
import { replies } from "./words";

interface Props {
  conversationId: string;
  /** The message that the thread belongs to. */
  threadSeq: number;
  /** The reply to show. */
  seq: number | null;
  workspaceId: string | null;
  subBiz: string | null;
  typing: string;
}

/** A thread next to its conversation, or over it on a narrow screen. */
export function ThreadPanel({ conversationId, threadSeq, seq, workspaceId, subBiz, typing }: Props) {
  const { me, tell, confirm } = useWorld();
  const run = useDo();
  const { id, thread, parent, session, ...state } = useThread(conversationId, threadSeq);
  const place = usePlace(conversationId, parent, thread);
  const { name } = usePlaceName(conversationId);
  const [beginning] = useState<Target | null>(seq === null ? null : { seq });
  const { messages, loaded, place: part, loadOlder, loadNewer, ...history } = useHistory(id, session, state.sessionIsLoaded, beginning?.seq ?? null);
  const { target, fromEnd, show, toNewest } = useTarget(seq, beginning, history, true);
  const live = !loadNewer;
  const outgoing = useOutbox(id).filter((each) => !messages.some((message) => message.idempotencyKey === each.key && message.sender.id === me));
  const { heldMessages } = useFiles(id);
  const watched = useWatched();
  const markRead = useMarkRead(session, watched);
  const [line, see] = useNewMessagesLine({ me, session, messages, outgoing, ready: loaded, live });
  const [replying, setReplying] = useState<Message | null>(null);
  const [editing, setEditing] = useState<Message | null>(null);
  const [reported, setReported] = useState<Message | null>(null);
  const composer = useRef<HTMLTextAreaElement>(null);
  const panel = useRef<HTMLElement>(null);
  const [opener] = useState(() => document.activeElement as HTMLElement | null);
  const mayWrite = !!parent && place.refusal === null && !state.hasEnded;
  const drop = useDrop(id, mayWrite && !editing);

  // The panel makes the conversation narrower, which moves its messages.
  useLayoutEffect(() => void opener?.closest("main.conversation article")?.scrollIntoView({ block: "nearest" }), []);
  // On devices with a keyboard, the composer takes the focus as soon as it is displayed.
  useEffect(() => {
    if (!panel.current!.contains(document.activeElement)) panel.current!.focus();
  }, []);

  /** The focus returns to where it was, or to the message. */
  const close = () => {
    closeThread();
    setTimeout(() => {
      const isUsable = opener?.isConnected && opener !== document.body;
      (isUsable ? opener : document.querySelector<HTMLElement>(`main.conversation [data-seq="${threadSeq}"]`))?.focus();
    });
  };
  const jump = async (to: number) => {
    if (!(await show({ seq: to }))) tell("The message didn't load. Try again when you are online.");
  };
  const recall = async (message: Message) => {
    const question = { title: "Recall this message?", text: "Its text disappears for everybody. This cannot be undone.", verb: "Recall" };
    if (await confirm(question)) void run(RecallMessageDocument, { id: message.id });
  };
  const actions = {
    react: mayWrite ? ({ id: messageId }: Message, emoji: string, isOwn: boolean) => void (isOwn ? run(RemoveReactionDocument, { messageId, emoji }) : run(AddReactionDocument, { messageId, emoji })) : undefined,
    edit: mayWrite ? (message: Message) => (setEditing(message), setReplying(null), composer.current?.focus()) : undefined,
    recall: (message: Message) => void recall(message),
    suppress: (message: Message) => void run(SuppressEmbedsDocument, { id: message.id }),
    report: setReported,
    jump: (to: number) => void jump(to),
  };
  // Seqs of replies begin at 1. The parent message's own seq belongs to its conversation.
  const top = parent && (
    <div className={messages[0] && day(messages[0].createdAt) === day(parent.createdAt) ? "thread-parent same-day" : "thread-parent"}>
      <Bubble message={{ ...parent, seq: 0 }} session={null} showsSenders follows={false} lit={false} status={statusOf(parent, place.session)} setSize={-1} isTabStop {...actions} />
      {!!thread?.replyCount && <p className="reply-count"><span>{replies(thread.replyCount)}</span></p>}
    </div>
  );

  return (
    <aside
      ref={panel}
      className={drop.over ? "conversation thread-panel dropping" : "conversation thread-panel"}
      aria-label="Thread"
      tabIndex={-1}
      {...drop.on}
      onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), close())}
    >
      <header>
        <BackFromThread workspaceId={workspaceId} close={close} />
        <div className="about">
          <h2>Thread</h2>
          <p>{typing ? <span className="typing">{typing}</span> : <a href={pathTo({ workspaceId, subBiz, conversationId, seq: threadSeq })} title="Show the message in the conversation">{name}</a>}</p>
        </div>
        {thread && !state.hasEnded && (
          <button className="follow" aria-pressed={state.isFollowed} title={state.isFollowed ? "You get new replies. Click to unfollow." : "Get new replies"} onClick={() => void state.follow(!state.isFollowed)}>
            {state.isFollowed ? "Following" : "Follow"}
          </button>
        )}
        {thread && place.mayLock && <Menu label="Actions for thread" items={[{ label: thread.isLocked ? "Unlock thread" : "Lock thread", run: () => void state.lock(!thread.isLocked) }]} />}
        <button className="icon close-thread" aria-label="Close thread" title="Close" onClick={close}><Icon name="close" /></button>
      </header>
      {state.hasFailed ? (
        <p className="empty" role="alert">The thread didn't load. <button className="link" onClick={state.again}>Try again</button></p>
      ) : state.hasEnded || (!parent && !state.isLoading) ? (
        <p className="empty">There is no such thread, or you cannot see it any more.</p>
      ) : (
        <>
          {loadOlder && parent && (
            <button className="parent-line" title="To the beginning of the thread" onClick={() => void jump(1)}>
              <b>{parent.sender.id === me ? "You" : parent.sender.displayName}</b> {textOf(parent)}
            </button>
          )}
          <MessageList
            key={part}
            messages={messages}
            loaded={loaded && !!parent}
            outgoing={live ? outgoing : []}
            heldMessages={live ? heldMessages : []}
            session={null}
            showsSenders
            line={line}
            watched={watched}
            target={target}
            onSeen={(upTo) => (markRead(upTo), see(upTo))}
            fromEnd={fromEnd}
            loadOlder={loadOlder}
            loadNewer={loadNewer}
            goToNewest={toNewest}
            label="Replies"
            empty="No replies yet."
            top={top}
            {...actions}
            reply={mayWrite ? (message) => (setReplying(message), setEditing(null), composer.current?.focus()) : undefined}
          />
          {place.refusal !== null ? (
            <p className="frozen">{place.refusal}</p>
          ) : parent && (
            <ThreadComposer
              box={composer}
              conversationId={id}
              parentId={parent.id}
              place={place}
              placeName={name}
              replying={replying}
              editing={editing}
              sent={() => live || toNewest()}
              done={() => (setReplying(null), setEditing(null))}
              editLast={() => {
                const last = messages.findLast((each) => each.sender.id === me && each.state === "NORMAL");
                if (last) setEditing(last);
              }}
            />
          )}
        </>
      )}
      {reported && <ReportDialog message={reported} close={() => setReported(null)} />}
    </aside>
  );
}

/** On phones: leads back to the view from which the thread was opened. */
function BackFromThread({ workspaceId, close }: { workspaceId: string | null; close: () => void }) {
  const { isResult, isFromThreads } = useEntry();
  const label = isResult ? "Back to the results" : isFromThreads ? "Back to the threads" : "Back to the conversation";
  const back = isResult ? () => history.back() : isFromThreads ? () => go({ workspaceId, threads: true }) : close;
  return <button className="icon back" aria-label={label} onClick={back}><Icon name="back" /></button>;
}
