import { useEffect, useState, useSyncExternalStore } from "react";
import { graphql, useLazyLoadQuery, usePaginationFragment, useSubscribeToInvalidationState } from "react-relay";
import { commitLocalUpdate, fetchQuery, requestSubscription } from "relay-runtime";
import { keepInSync } from "../sync.mjs";

// Not masked: a Chat keeps them longer than the store, which deletes what no component displays.
graphql`
  fragment Chat_session on Session {
    id status subBiz priority writeTs activeTs unreadCount unreadMentionCount unreadStatus muteStatus
    readSeq deliveredSeq writeSeq peerDeliveredSeq peerReadSeq
    conversation { id title type }
    lastMessage { id content state }
  }`;
graphql`
  fragment Chat_message on Message {
    id conversationId seq contentType content state createdAt editCount idempotencyKey sender { id displayName }
    attachments { id filename contentType sizeBytes description state url width height thumbHash thumbnailUrl(width: 640) spoiler }
    embeds { type url title description siteName image { url width height } }
  }`;

// openId: the conversation on the screen while the page has the focus, else null.
export function SessionList({ chat, openId = null }) {
  useSyncExternalStore(chat.subscribe, chat.version);
  const query = useLazyLoadQuery(graphql`query ChatSessionsQuery { ...Chat_sessions }`, {});
  const { data, hasNext, loadNext } = usePaginationFragment(graphql`
    fragment Chat_sessions on Query
    @refetchable(queryName: "ChatSessionsPageQuery")
    @argumentDefinitions(count: { type: "Int", defaultValue: 50 }, cursor: { type: "String" }) {
      sessions(first: $count, after: $cursor) @connection(key: "Chat_sessions") {
        edges { node { ...Chat_session @relay(mask: false) } }
      }
    }`, query);
  return (
    <nav title={`${chat.totalUnread} unread`}>
      {chat.list(data.sessions.edges.map(({ node }) => node)).map((session) => <SessionRow key={session.id} session={session} chat={chat} openId={openId} />)}
      {hasNext && <button onClick={() => loadNext(50)}>More</button>}
    </nav>
  );
}

function SessionRow({ session, chat, openId }) {
  const { conversation, unreadCount } = session;
  useEffect(() => {
    if (conversation.id === openId) chat.receipts.read(session);
  });
  return <a href={`#${conversation.id}`} data-unread={unreadCount}>{conversation.title}</a>;
}

const historyQuery = graphql`
  query ChatHistoryQuery($conversationId: ID!) { ...Chat_history @arguments(conversationId: $conversationId) }
`;

// Give it key={conversationId}.
export function History({ chat, conversationId }) {
  const [fetchKey, setFetchKey] = useState(0);
  useSubscribeToInvalidationState(["client:root"], () => setFetchKey((key) => key + 1)); // startRelay, after too large a gap
  useSyncExternalStore(chat.subscribe, chat.version);
  const query = useLazyLoadQuery(historyQuery, { conversationId }, { fetchKey });
  const { data, hasPrevious, loadPrevious } = usePaginationFragment(graphql`
    fragment Chat_history on Query
    @refetchable(queryName: "ChatHistoryPageQuery")
    @argumentDefinitions(conversationId: { type: "ID!" }, count: { type: "Int", defaultValue: 50 }, cursor: { type: "String" }) {
      messages(conversationId: $conversationId, last: $count, before: $cursor) @connection(key: "Chat_messages") {
        edges { node { ...Chat_message @relay(mask: false) } }
      }
    }`, query);
  const messages = data.messages?.edges.map(({ node }) => node) ?? []; // null before the first message
  return (
    <div role="log">
      {hasPrevious && <button onClick={() => loadPrevious(50)}>Earlier</button>}
      {chat.history(conversationId, messages).map((message) => (message.input
        ? <Unsent key={message.id} item={message} outbox={chat.outbox} />
        : <Message key={message.id} message={message} />))}
    </div>
  );
}

function Unsent({ item: { id, content, failure }, outbox }) {
  if (!failure) return <p title="sending">{content}</p>;
  return (
    <p title="failed">
      {content}
      <button onClick={() => outbox.retry(id)}>Try again</button>
      <button onClick={() => outbox.discard(id)}>Discard</button>
    </p>
  );
}

const Message = ({ message: { content, sender } }) => <p title={sender.displayName}>{content}</p>;

// Call it once, after sign-in, with `new Chat(me, relayAct(environment))` (actions.js). Returns a function that stops.
export async function startRelay(environment, chat) {
  const { sessions } = await fetchQuery(environment, graphql`
    query ChatStartQuery {
      sessions(first: 50) {
        totalUnread cursor
        edges { node { ...Chat_session @relay(mask: false) } }
      }
    }`, {}).toPromise();
  const listen = (subscription, since, take) => requestSubscription(environment, {
    subscription, variables: { since }, onNext: take, onError: console.error,
  }).dispose;
  return keepInSync({
    chat,
    page: { ...sessions, sessions: sessions.edges.map(({ node }) => node) },
    sync: async (since) => (await fetchQuery(environment, graphql`
      query ChatSyncQuery($since: Cursor) {
        syncSessions(since: $since) {
          reset hasMore cursor totalUnread
          sessions { ...Chat_session @relay(mask: false) }
        }
      }`, { since }).toPromise()).syncSessions,
    sessionEvents: (since, take) => listen(graphql`
      subscription ChatSessionEventsSubscription($since: Cursor) {
        syncSession(since: $since) {
          cursor totalUnread
          sessions { ...Chat_session @relay(mask: false) }
        }
      }`, since, ({ syncSession }) => take(syncSession)),
    messageEvents: (since, take) => listen(graphql`
      subscription ChatMessageEventsSubscription($since: Cursor) {
        messageEvents(since: $since) {
          __typename
          ... on MessageCreated { cursor message { ...Chat_message @relay(mask: false) } }
          ... on MessageUpdated { cursor message { ...Chat_message @relay(mask: false) } }
          ... on MessageRecalled { cursor message { ...Chat_message @relay(mask: false) } }
          ... on ReceiptAdvanced { cursor }
          ... on TypingStarted { conversationId user { id displayName } }
          ... on TypingStopped { conversationId user { id } }
          ... on GroupChanged { cursor group { id title name } }
          ... on CaughtUp { cursor reset }
        }
      }`, since, ({ messageEvents }) => take(messageEvents)),
    refetch: () => commitLocalUpdate(environment, (store) => store.invalidateStore()), // the components fetch again
  });
}
