import { graphql, useFragment, useLazyLoadQuery, usePaginationFragment } from "react-relay";
import { ConnectionHandler, commitLocalUpdate, commitMutation, fetchQuery, requestSubscription } from "relay-runtime";
import { asShown, inOrder, keepInSync, pendingMessage } from "../sync.mjs";

export function SessionList() {
  const query = useLazyLoadQuery(graphql`query ChatSessionsQuery { ...Chat_sessions }`, {});
  const { data, hasNext, loadNext } = usePaginationFragment(graphql`
    fragment Chat_sessions on Query
    @refetchable(queryName: "ChatSessionsPageQuery")
    @argumentDefinitions(count: { type: "Int", defaultValue: 50 }, cursor: { type: "String" }) {
      totalUnread
      sessions(first: $count, after: $cursor) @connection(key: "Chat_sessions") {
        edges { node { id status subBiz priority writeTs ...Chat_session } }
      }
    }`, query);
  return (
    <nav title={`${data.totalUnread} unread`}>
      {asShown(data.sessions.edges.map(({ node }) => node)).map((session) => <SessionRow key={session.id} session={session} />)}
      {hasNext && <button onClick={() => loadNext(50)}>More</button>}
    </nav>
  );
}

function SessionRow({ session }) {
  const { conversation, unreadCount } = useFragment(graphql`
    fragment Chat_session on Session {
      unreadCount unreadMentionCount unreadStatus muteStatus readSeq writeSeq peerDeliveredSeq peerReadSeq
      conversation { id title type }
      lastMessage { id content state }
    }`, session);
  return <a href={`#${conversation.id}`} data-unread={unreadCount}>{conversation.title}</a>;
}

export function History({ conversationId, fetchKey }) {
  const query = useLazyLoadQuery(graphql`
    query ChatHistoryQuery($conversationId: ID!) { ...Chat_history @arguments(conversationId: $conversationId) }
  `, { conversationId }, { fetchKey });
  const { data, hasPrevious, loadPrevious } = usePaginationFragment(graphql`
    fragment Chat_history on Query
    @refetchable(queryName: "ChatHistoryPageQuery")
    @argumentDefinitions(conversationId: { type: "ID!" }, count: { type: "Int", defaultValue: 50 }, cursor: { type: "String" }) {
      messages(conversationId: $conversationId, last: $count, before: $cursor) @connection(key: "Chat_messages") {
        edges { node { id seq idempotencyKey ...Chat_message } }
      }
    }`, query);
  return (
    <div role="log">
      {hasPrevious && <button onClick={() => loadPrevious(50)}>Earlier</button>}
      {inOrder(data.messages.edges.map(({ node }) => node)).map((message) => <Message key={message.id} message={message} />)}
    </div>
  );
}

function Message({ message }) {
  const { content, sender } = useFragment(graphql`
    fragment Chat_message on Message { conversationId contentType content state createdAt editCount sender { __typename id displayName } }
  `, message);
  return <p title={sender.displayName}>{content}</p>;
}

// Call it once, after sign-in. onReset: the gap was too large: give History another fetchKey.
export async function startRelay(environment, onReset) {
  const { sessions } = await fetchQuery(environment, graphql`
    query ChatStartQuery { totalUnread sessions(first: 1) { cursor } }
  `, {}).toPromise();
  const listen = (subscription, since, take) => requestSubscription(environment, {
    subscription, variables: { since }, onNext: take, onError: console.error,
  }).dispose;
  return keepInSync({
    since: sessions.cursor,
    sync: async (since) => (await fetchQuery(environment, graphql`
      query ChatSyncQuery($since: Cursor) {
        syncSessions(since: $since) { reset hasMore cursor totalUnread sessions { id status subBiz priority writeTs ...Chat_session } }
      }`, { since }).toPromise()).syncSessions,
    sessionEvents: (since, take) => listen(graphql`
      subscription ChatSessionEventsSubscription($since: Cursor) {
        syncSession(since: $since) { cursor totalUnread sessions { id status subBiz priority writeTs ...Chat_session } }
      }`, since, ({ syncSession }) => take(syncSession)),
    messageEvents: (since, take) => listen(graphql`
      subscription ChatMessageEventsSubscription($since: Cursor) {
        messageEvents(since: $since) {
          __typename
          ... on MessageCreated { cursor message { id seq idempotencyKey conversationId ...Chat_message } }
          ... on MessageUpdated { cursor message { ...Chat_message } }
          ... on MessageRecalled { cursor message { ...Chat_message } }
          ... on ReceiptAdvanced { cursor }
          ... on CaughtUp { cursor reset }
        }
      }`, since, ({ messageEvents }) => take(messageEvents)),
    show: {
      sessions: ({ sessions, totalUnread, reset }) => commitLocalUpdate(environment, (store) => {
        store.getRoot().setValue(totalUnread, "totalUnread");
        const shown = ConnectionHandler.getConnection(store.getRoot(), "Chat_sessions");
        if (!shown) return;
        if (reset) shown.setLinkedRecords([], "edges");
        for (const { id } of sessions) insert(store, shown, "SessionEdge", id);
      }),
      event: ({ __typename, message, reset }) => commitLocalUpdate(environment, (store) => {
        if (reset) {
          store.invalidateStore();
          setTimeout(onReset);
        }
        if (__typename !== "MessageCreated") return;
        const { conversationId } = message;
        const shown = ConnectionHandler.getConnection(store.getRoot(), "Chat_messages", { conversationId });
        if (shown) insert(store, shown, "MessageEdge", message.id);
      }),
    },
  });
}

function insert(store, connection, edgeType, id) {
  if (connection.getLinkedRecords("edges").some((edge) => edge.getLinkedRecord("node")?.getDataID() === id)) return;
  ConnectionHandler.insertEdgeAfter(connection, ConnectionHandler.createEdge(store, connection, store.get(id), edgeType));
}

export function send(environment, me, message) {
  const input = { ...message, idempotencyKey: crypto.randomUUID() };
  const shown = ConnectionHandler.getConnectionID("client:root", "Chat_messages", { conversationId: input.conversationId });
  return new Promise((resolve, reject) => {
    commitMutation(environment, {
      mutation: graphql`
        mutation ChatSendMutation($input: SendMessageInput!, $shown: [ID!]!) {
          sendMessage(input: $input) {
            message @appendNode(connections: $shown, edgeTypeName: "MessageEdge") { __typename id seq idempotencyKey ...Chat_message }
          }
        }`,
      variables: { input, shown: [shown] },
      optimisticResponse: { sendMessage: { message: pendingMessage(me, input) } },
      onCompleted: resolve,
      onError: reject,
    });
  });
}
