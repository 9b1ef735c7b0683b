import { useEffect, useRef, useState } from "react";

import { isRetryable } from "../confab/outbox";
import { MarkReadDocument, MessagesDocument, OneSessionDocument, RecallMessageDocument, type MessagePartsFragment } from "../gql";
import { Avatar } from "./Avatar";
import { Composer } from "./Composer";
import { plural } from "./format";
import { GroupInfo } from "./GroupInfo";
import { Icon } from "./Icon";
import { MessageInfo } from "./MessageInfo";
import { MessageList } from "./MessageList";
import { privateId } from "./NewConversation";
import { go } from "./route";
import { useDo } from "./useDo";
import { useAsked, useLink, useOutbox, useWatched, useWorld } from "./world";

export function Conversation({ id, subBiz, typing }: { id: string; subBiz: string | null; typing: string }) {
  const { me, client, people } = useWorld();
  const run = useDo();
  const [{ data: found, fetching, error }, again] = useAsked({ query: OneSessionDocument, variables: { conversationId: id } });
  const [{ data: history }] = useAsked({ query: MessagesDocument, variables: { conversationId: id } });
  const outgoing = useOutbox(id);
  const [replying, setReplying] = useState<MessagePartsFragment | null>(null);
  const [editing, setEditing] = useState<MessagePartsFragment | null>(null);
  const [asked, setAsked] = useState<MessagePartsFragment | "group" | null>(null);
  const composer = useRef<HTMLTextAreaElement>(null);

  const session = found?.session ?? null;
  const conversation = session?.conversation;
  const messages = history?.messages?.edges.map((edge) => edge.node) ?? [];
  const group = conversation?.__typename === "Group" ? conversation : null;

  // The read position when this was opened: the new messages begin there.
  const readTo = useRef<number | null>(null);
  readTo.current ??= session?.readSeq ?? null;

  const watched = useWatched();
  const link = useLink();
  const newest = messages.at(-1)?.seq ?? 0;
  const unread = session && (session.unreadCount > 0 || session.unreadStatus || newest > session.readSeq);
  useEffect(() => {
    if (watched && unread && link === "online") void client.mutation(MarkReadDocument, { conversationId: id }).toPromise();
  }, [watched, unread, newest, link]);

  const older = history?.messages?.pageInfo.hasPreviousPage ? history.messages.pageInfo.startCursor : null;
  const loadOlder = () => client.query(MessagesDocument, { conversationId: id, before: older }).toPromise();

  // A private conversation begins with its first message: before that there is no session, and its id names the other person. If the
  // id names other people (a link copied from somebody), a message to that person would go to another conversation.
  const other = id.startsWith("p_") ? id.slice(2).split("~")[0]!.split("_").find((each) => each !== me) : undefined;
  const begins = other !== undefined && id === privateId(me, other);
  const title = conversation?.title ?? people.find((each) => each.id === other)?.displayName ?? other ?? "";
  const bot = conversation?.__typename === "PrivateConversation" && conversation.peer.isBot;
  const away = group && (group.viewerRole === null || group.status === "DISSOLVED");
  const leave = () => {
    go({ subBiz });
    setTimeout(() => document.querySelector<HTMLElement>(".session[tabindex='0']")?.focus());
  };

  if (!session && !begins && error && isRetryable(error)) return <main className="nothing-open"><p role="alert">The conversation didn't load. <button className="link" onClick={() => again({ requestPolicy: "network-only" })}>Try again</button></p></main>;
  if (!fetching && !session && !begins) return <main className="nothing-open"><h2>There is no such conversation</h2><p><a href="#/">Back to all sessions</a></p></main>;
  return (
    <main className="conversation" aria-label={title} onKeyDown={(event) => event.key === "Escape" && leave()}>
      <header>
        <button className="icon back" aria-label="Back" onClick={leave}><Icon name="back" /></button>
        <Avatar id={other ?? id} name={title} />
        <div className="about">
          <h2>{title}</h2>
          <p role="status">{typing || (group ? (away ? "You are no longer a member" : plural(group.memberCount, "member")) : bot ? "Bot" : session?.subBiz ?? "")}</p>
        </div>
        {group && !away && <button className="icon" aria-label="Group info" title="Group info" onClick={() => setAsked("group")}><Icon name="group" /></button>}
      </header>
      <MessageList
        messages={messages}
        loaded={!!history}
        outgoing={outgoing.filter((each) => !messages.some((message) => message.idempotencyKey === each.key && message.sender.id === me))}
        session={session}
        readTo={readTo.current}
        loadOlder={older ? loadOlder : null}
        reply={(message) => (setReplying(message), setEditing(null), composer.current?.focus())}
        edit={(message) => (setEditing(message), setReplying(null), composer.current?.focus())}
        recall={(message) => void run(RecallMessageDocument, { id: message.id })}
        info={setAsked}
      />
      {away ? (
        <p className="frozen">You can read messages from the time when you were a member.</p>
      ) : (
        <Composer
          box={composer}
          conversationId={id}
          other={session || !begins ? undefined : other}
          group={!!group}
          mayMentionAll={group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN"}
          replying={replying}
          editing={editing}
          done={() => (setReplying(null), setEditing(null))}
          editLast={() => {
            const last = messages.findLast((each) => each.sender.id === me && each.state === "NORMAL" && each.contentType !== "SYSTEM");
            if (last) setEditing(last);
          }}
        />
      )}
      {asked === "group" && group && <GroupInfo id={id} close={() => setAsked(null)} />}
      {asked && asked !== "group" && <MessageInfo message={asked} close={() => setAsked(null)} />}
    </main>
  );
}
