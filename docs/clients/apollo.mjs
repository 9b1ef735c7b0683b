import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, gql } from "@apollo/client/core";
import { SetContextLink } from "@apollo/client/link/context";
import { RetryLink } from "@apollo/client/link/retry";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import { map } from "rxjs";
import { waitBefore } from "./errors.mjs";
import { MESSAGES, MESSAGE_EVENTS, SEND, SESSION, SESSIONS, SESSION_EVENTS, SYNC } from "./operations.mjs";
import { openSocket, resuming } from "./socket.mjs";
import { keepInSync, pendingMessage } from "./sync.mjs";

// possibleTypes: web/types/confab.possible-types.json. The cache needs it for interfaces and unions.
export function apolloClient({ url, token, possibleTypes, socket = openSocket({ url, token }) }) {
  const authorize = new SetContextLink(async ({ headers }) => ({
    headers: { ...headers, authorization: `Bearer ${await token()}` },
  }));
  // RetryLink only sees network errors: turn retryable GraphQL errors into such errors.
  const raise = new ApolloLink((operation, forward) => forward(operation).pipe(map((result) => {
    if (result.errors && waitBefore(result.errors) !== null) throw new CombinedGraphQLErrors(result);
    return result;
  })));
  // It would repeat every mutation. A mutation may be repeated if it has a key, or if executing it twice has the same effect.
  const repeatable = ({ operationType, operationName, variables }) =>
    operationType === "query" || variables.input?.idempotencyKey || operationName === "MarkRead";
  const retry = new RetryLink({
    attempts: (attempt, operation, error) => attempt < 10 && waitBefore(error) !== null && Boolean(repeatable(operation)),
    delay: (attempt, operation, error) => waitBefore(error, attempt),
  });

  return new ApolloClient({
    link: ApolloLink.split(
      ({ operationType }) => operationType === "subscription",
      new GraphQLWsLink(resuming(socket)),
      ApolloLink.from([retry, raise, authorize, new HttpLink({ uri: url })]),
    ),
    cache: new InMemoryCache({
      possibleTypes,
      typePolicies: {
        Query: {
          fields: {
            sessions: relayStylePagination(["subBiz", "categoryId"]),
            messages: relayStylePagination(["conversationId"]),
          },
        },
      },
    }),
  });
}

const sessionsQuery = gql(SESSIONS);
const messagesQuery = gql(MESSAGES);
const sessionRow = gql(SESSION);

// Call it once, after sign-in. Afterwards useQuery(sessionsQuery) and useQuery(messagesQuery, ...) stay up to date.
export async function startApollo(client) {
  const { data } = await client.query({ query: sessionsQuery });
  const listen = (query, since, take) => {
    const subscription = client.subscribe({ query: gql(query), variables: { since } }).subscribe(({ data, error }) => {
      if (error) console.error(error);
      else take(data);
    });
    return () => subscription.unsubscribe();
  };
  return keepInSync({
    since: data.sessions.cursor,
    sync: async (since) => (await client.query({ query: gql(SYNC), variables: { since }, fetchPolicy: "no-cache" })).data.syncSessions,
    sessionEvents: (since, take) => listen(SESSION_EVENTS, since, ({ syncSession }) => take(syncSession)),
    messageEvents: (since, take) => listen(MESSAGE_EVENTS, since, ({ messageEvents }) => take(messageEvents)),
    show: {
      sessions({ sessions, totalUnread, cursor, reset }) {
        client.cache.updateQuery({ query: sessionsQuery }, ({ sessions: shown }) => {
          const old = reset ? [] : shown.edges;
          const known = new Set(old.map(({ node }) => node.id));
          // At the front, so that the next page, which goes after the last edge, does not drop them. asShown() sorts them.
          const added = sessions.filter(({ id }) => !known.has(id)).map((node) => ({ __typename: "SessionEdge", cursor: "", node }));
          return { sessions: { ...shown, totalUnread, cursor, edges: [...added, ...old] } };
        });
        for (const session of sessions) client.cache.writeFragment({ fragment: sessionRow, fragmentName: "SessionRow", data: session });
      },
      event({ __typename, message, reset }) {
        // Edits and recalls are in the cache already: it stores messages by id.
        if (__typename === "MessageCreated") append(client.cache, message);
        if (reset) client.refetchQueries({ include: [messagesQuery] }); // the gap was too large
      },
    },
  });
}

// Adds it to the conversation's history, if that is in the cache.
function append(cache, message) {
  cache.updateQuery({ query: messagesQuery, variables: { conversationId: message.conversationId } }, (data) => {
    if (!data?.messages || data.messages.edges.some(({ node }) => node.id === message.id)) return undefined;
    const edge = { __typename: "MessageEdge", cursor: "", node: message };
    return { messages: { ...data.messages, edges: [...data.messages.edges, edge] } };
  });
}

export function openConversation(client, conversationId) {
  return client.watchQuery({ query: messagesQuery, variables: { conversationId } });
}

export async function send(client, me, input) {
  const pending = pendingMessage(me, { ...input, idempotencyKey: crypto.randomUUID() });
  // Not an optimisticResponse: while one is active, messages of other people do not appear in the conversation.
  append(client.cache, pending);
  try {
    const variables = { input: { ...input, idempotencyKey: pending.idempotencyKey } };
    const { data } = await client.mutate({ mutation: gql(SEND), variables });
    append(client.cache, data.sendMessage.message);
    return data.sendMessage.message;
  } finally {
    client.cache.evict({ id: client.cache.identify(pending) });
  }
}
