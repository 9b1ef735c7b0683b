import { peerIn, type Message } from "@confab/client";
import { useRef, useState } from "react";

import { isRetryable } from "../confab/outbox";
import { AddReactionDocument, MembersDocument, OneSessionDocument, PersonDocument, RecallMessageDocument, RemoveReactionDocument, SuppressEmbedsDocument } from "../gql";
import { Avatar } from "./Avatar";
import { useBlocking, useIsBlocked } from "./blocking/useBlocks";
import { Composer } from "./Composer";
import { useDrop, useFiles } from "./files/useFiles";
import { plural } from "./format";
import { GroupInfo } from "./GroupInfo";
import { Icon } from "./Icon";
import { MessageInfo } from "./MessageInfo";
import { MessageList } from "./MessageList";
import { PinnedButton } from "./pins/PinnedButton";
import { usePinning } from "./pins/usePins";
import { StatusEmojiOf } from "./presence/CustomStatus";
import { PresenceWords } from "./presence/PresenceWords";
import { useFollowed } from "./presence/usePresence";
import { ReportDialog } from "./moderation/ReportDialog";
import { Profile } from "./presence/Profile";
import { closeThread, go } from "./route";
import { BackButton, SearchHere } from "./search/buttons";
import { threadOf } from "./threads/words";
import { useDo } from "./useDo";
import { useHistory } from "./useHistory";
import { useMarkRead, useNewMessagesLine } from "./useReading";
import { useBeginning, useTarget } from "./useTarget";
import { useAsked, useOutbox, useWatched, useWorld } from "./world";

interface Props {
  id: string;
  subBiz: string | null;
  /** The message to show. */
  seq: number | null;
  /** The message whose thread is open. */
  threadSeq: number | null;
  /** The thread covers the conversation. */
  covered: boolean;
  typing: string;
}

export function Conversation({ id, subBiz, seq, threadSeq, covered, typing }: Props) {
  const { me, confirm, tell } = useWorld();
  const run = useDo();
  const [{ data: found, fetching, error }, again] = useAsked({ query: OneSessionDocument, variables: { conversationId: id } });
  const [replying, setReplying] = useState<Message | null>(null);
  const [editing, setEditing] = useState<Message | null>(null);
  const [asked, setAsked] = useState<Message | "group" | "person" | null>(null);
  const [reported, setReported] = useState<Message | null>(null);
  const composer = useRef<HTMLTextAreaElement>(null);

  const session = found?.session ?? null;
  const conversation = session?.conversation;
  const group = conversation?.__typename === "Group" ? conversation : null;

  const members = useAsked({ query: MembersDocument, variables: { id }, pause: !group })[0].data?.group?.members?.edges.map(({ node }) => node.user) ?? [];

  // A private conversation begins with its first message: before that there is no session, and its id names the other person.
  const begins = session ? undefined : peerIn(id, me);
  const [{ data: answer }] = useAsked({ query: PersonDocument, variables: { id: begins ?? "" }, pause: begins === undefined || fetching });
  const person = conversation?.__typename === "PrivateConversation" ? conversation.peer : answer?.user;
  const title = conversation?.title ?? person?.displayName ?? begins ?? "";

  const beginning = useBeginning(seq, threadSeq);
  const { messages, loaded, place, loadOlder, loadNewer, ...history } = useHistory(id, session, !fetching, beginning?.seq ?? null);
  const { target, fromEnd, show, toNewest } = useTarget(seq, beginning, history);
  const live = !loadNewer;
  const outgoing = useOutbox(id).filter((each) => !messages.some((message) => message.idempotencyKey === each.key && message.sender.id === me));
  const { heldMessages } = useFiles(id);
  useFollowed(messages.map(({ sender }) => sender.id));
  const watched = useWatched() && !covered;
  const markRead = useMarkRead(session, watched);
  const [line, see] = useNewMessagesLine({ me, session, messages, outgoing, ready: loaded, live });

  const jump = async (to: number) => {
    if (!(await show({ seq: to }))) tell("The message didn't load. Try again when you are online.");
  };
  const recall = async (message: Message) => {
    const question = { title: "Recall this message?", text: "Its text disappears for everybody. This cannot be undone.", verb: "Recall" };
    if (await confirm(question)) void run(RecallMessageDocument, { id: message.id });
  };

  const away = !!group && (group.viewerRole === null || group.status === "DISSOLVED");
  const blocked = useIsBlocked(person?.id);
  const pin = usePinning();
  const mayPin = !!session && !away && !blocked && (!group || group.viewerRole !== "MEMBER");
  const { unblock } = useBlocking();
  const drop = useDrop(id, !away && !blocked && !editing);
  const openThread = (message: Message) => go({ subBiz, conversationId: threadOf(message) });
  const leave = () => {
    go({ subBiz });
    setTimeout(() => document.querySelector<HTMLElement>(".session[tabindex='0']")?.focus());
  };

  if (!session && !begins && error && isRetryable(error)) return <main className="nothing-open"><p role="alert">The conversation didn't load. <button className="link" onClick={() => again({ requestPolicy: "network-only" })}>Try again</button></p></main>;
  if (answer && !answer.user) return <main className="nothing-open"><h2>There is no such person</h2><p>Nobody here has the id “{begins}”.</p><p><a href="#/">Back to all sessions</a></p></main>;
  if (!fetching && !session && !begins) return <main className="nothing-open"><h2>There is no such conversation</h2><p><a href="#/">Back to all sessions</a></p></main>;
  return (
    <main className={drop.over ? "conversation dropping" : "conversation"} aria-label={title} {...drop.on} onKeyDown={(event) => event.key === "Escape" && (closeThread() || leave())}>
      <header>
        <BackButton leave={leave} />
        <Avatar id={person?.id ?? id} name={title} url={group ? group.avatarUrl : person?.avatarUrl} sign={group ? "group" : undefined} live={!!person && !person.isBot} />
        <div className="about">
          <h2>{title} {person && <StatusEmojiOf userId={person.id} />}</h2>
          <p role="status">{typing || (group ? (away ? "You are no longer a member" : plural(group.memberCount, "member")) : person?.isBot ? "Bot" : session?.subBiz ?? (person && <PresenceWords userId={person.id} />))}</p>
        </div>
        {session && <PinnedButton conversationId={id} jump={(seq) => void jump(seq)} mayPin={mayPin} />}
        <SearchHere conversationId={id} />
        {person && <button className="icon" aria-label="Profile" title="Profile" onClick={() => setAsked("person")}><Icon name="person" /></button>}
        {group && !away && <button className="icon" aria-label="Group info" title="Group info" onClick={() => setAsked("group")}><Icon name="group" /></button>}
      </header>
      <MessageList
        key={place}
        messages={messages}
        loaded={loaded}
        outgoing={live ? outgoing : []}
        heldMessages={live ? heldMessages : []}
        session={session}
        showsSenders={!!group}
        line={line}
        watched={watched}
        target={target}
        onSeen={(seq) => (markRead(seq), see(seq))}
        fromEnd={fromEnd}
        loadOlder={loadOlder}
        loadNewer={loadNewer}
        goToNewest={toNewest}
        react={away ? undefined : ({ id: messageId }, emoji, isOwn) => void (isOwn ? run(RemoveReactionDocument, { messageId, emoji }) : run(AddReactionDocument, { messageId, emoji }))}
        openThread={openThread}
        startThread={away || blocked ? undefined : openThread}
        reply={(message) => (setReplying(message), setEditing(null), composer.current?.focus())}
        edit={(message) => (setEditing(message), setReplying(null), composer.current?.focus())}
        pin={mayPin ? (message) => void pin(message) : undefined}
        recall={(message) => void recall(message)}
        suppress={({ id }) => void run(SuppressEmbedsDocument, { id })}
        jump={(seq) => void jump(seq)}
        info={setAsked}
        report={setReported}
      />
      {away ? (
        <p className="frozen">You can read messages from the time when you were a member.</p>
      ) : blocked && person ? (
        <p className="frozen">You have blocked {person.displayName}. <button className="link" onClick={() => void unblock(person)}>Unblock</button></p>
      ) : (
        <Composer
          box={composer}
          conversationId={id}
          to={begins ? { toUserId: begins } : { conversationId: id }}
          people={members}
          mayMentionAll={group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN"}
          replying={replying}
          editing={editing}
          sent={() => live || toNewest()}
          done={() => (setReplying(null), setEditing(null))}
          editLast={() => {
            const last = messages.findLast((each) => each.sender.id === me && each.state === "NORMAL" && each.contentType !== "SYSTEM");
            if (last) setEditing(last);
          }}
        />
      )}
      {reported && <ReportDialog message={reported} close={() => setReported(null)} />}
      {asked === "group" && group && <GroupInfo id={id} close={() => setAsked(null)} />}
      {asked === "person" && person && <Profile user={person} close={() => setAsked(null)} />}
      {asked && asked !== "group" && asked !== "person" && <MessageInfo message={asked} close={() => setAsked(null)} />}
    </main>
  );
}
