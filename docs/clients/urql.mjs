import { Client, fetchExchange, subscriptionExchange } from "@urql/core";
import { authExchange } from "@urql/exchange-auth";
import { cacheExchange } from "@urql/exchange-graphcache";
import { relayPagination } from "@urql/exchange-graphcache/extras";
import { retryExchange } from "@urql/exchange-retry";
import { waitBefore } from "./errors.mjs";
import { MESSAGES, MESSAGE_EVENTS, SEND, SESSIONS, SESSION_EVENTS, SYNC } from "./operations.mjs";
import { openSocket, resuming } from "./socket.mjs";
import { keepInSync, pendingMessage } from "./sync.mjs";

// schema: web/types/confab.introspection.json. The cache needs it for interfaces and unions.
export function urqlClient({ url, token, schema, socket = openSocket({ url, token }) }) {
  const live = resuming(socket);
  const repeatable = ({ kind, variables }) => kind === "query" || variables?.input?.idempotencyKey;
  return new Client({
    url,
    preferGetMethod: false,
    exchanges: [
      cacheExchange({
        schema,
        // Objects without an id are part of their parent.
        keys: { SessionDelta: () => null, Delivery: () => null, Receipt: () => null, GroupMember: () => null, SeqRange: () => null },
        resolvers: {
          Query: {
            sessions: relayPagination(),
            messages: relayPagination({ mergeMode: "outwards" }),
          },
        },
        updates: {
          Query: { syncSessions: ({ syncSessions }, _, cache) => showSessions(cache, syncSessions) },
          Subscription: {
            syncSession: ({ syncSession }, _, cache) => showSessions(cache, { ...syncSession, reset: false }),
            messageEvents: ({ messageEvents: { __typename, message } }, _, cache) => {
              // Edits and recalls are in the cache already: it stores messages by id.
              if (__typename === "MessageCreated") append(cache, message);
            },
          },
          Mutation: { sendMessage: ({ sendMessage }, _, cache) => append(cache, sendMessage.message) },
        },
      }),
      // By default it retries once, only after network errors, and any mutation.
      retryExchange({
        maxNumberAttempts: 10,
        initialDelayMs: 100,
        maxDelayMs: 2_500,
        retryIf: (error, operation) => Boolean(waitBefore(error) !== null && repeatable(operation)),
      }),
      authExchange(async ({ appendHeaders }) => {
        let jwt = await token();
        return {
          addAuthToOperation: (operation) => appendHeaders(operation, { authorization: `Bearer ${jwt}` }),
          didAuthError: ({ graphQLErrors }) => graphQLErrors.some(({ extensions }) => extensions?.code === "UNAUTHENTICATED"),
          async refreshAuth() { jwt = await token(jwt); },
        };
      }),
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query, variables }) => ({
          subscribe: (sink) => ({ unsubscribe: live.subscribe({ query, variables }, sink) }),
        }),
      }),
    ],
  });
}

function showSessions(cache, { sessions, totalUnread, cursor, reset }) {
  cache.updateQuery({ query: SESSIONS }, (data) => {
    if (!data) return data;
    const old = reset ? [] : data.sessions.edges;
    const known = new Set(old.map(({ node }) => node.id));
    const added = sessions.filter(({ id }) => !known.has(id)).map((node) => ({ __typename: "SessionEdge", cursor: "", node }));
    return { sessions: { ...data.sessions, totalUnread, cursor, edges: [...added, ...old] } };
  });
}

// Adds it to the conversation's history, if that is in the cache.
function append(cache, message) {
  cache.updateQuery({ query: MESSAGES, variables: { conversationId: message.conversationId } }, (data) => {
    if (!data?.messages || data.messages.edges.some(({ node }) => node.id === message.id)) return data;
    const edge = { __typename: "MessageEdge", cursor: "", node: message };
    return { messages: { ...data.messages, edges: [...data.messages.edges, edge] } };
  });
}

// Call it once, after sign-in. Afterwards useQuery({ query: SESSIONS }) and useQuery({ query: MESSAGES, ... }) stay up to date.
// onReset: the gap was too large: fetch the displayed messages again with requestPolicy "network-only".
export async function startUrql(client, onReset) {
  const dataOf = ({ data, error }) => {
    if (error) throw error;
    return data;
  };
  const listen = (query, since, take) => client.subscription(query, { since }).subscribe(({ data, error }) => {
    if (error) console.error(error);
    else take(data);
  }).unsubscribe;
  const { sessions } = dataOf(await client.query(SESSIONS, {}));
  return keepInSync({
    since: sessions.cursor,
    sync: async (since) => dataOf(await client.query(SYNC, { since }, { requestPolicy: "network-only" })).syncSessions,
    sessionEvents: (since, take) => listen(SESSION_EVENTS, since, ({ syncSession }) => take(syncSession)),
    messageEvents: (since, take) => listen(MESSAGE_EVENTS, since, ({ messageEvents }) => take(messageEvents)),
    show: {
      sessions() {}, // the updates above put them into the cache
      event({ reset }) {
        if (reset) onReset();
      },
    },
  });
}

// Messages that wait to be sent, displayed after the conversation: inOrder([...messages, ...waiting]). Not an optimistic answer: while
// one is active, messages of other people do not appear. In React: useSyncExternalStore(outbox.subscribe, outbox.waiting).
export class Outbox {
  #waiting = [];
  #listeners = new Set();
  waiting = () => this.#waiting;

  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #show(waiting) {
    this.#waiting = waiting;
    for (const listener of this.#listeners) listener();
  }

  async send(client, me, message) {
    const input = { ...message, idempotencyKey: crypto.randomUUID() };
    const pending = pendingMessage(me, input);
    this.#show([...this.#waiting, pending]);
    try {
      const { data, error } = await client.mutation(SEND, { input });
      if (error) throw error;
      return data.sendMessage.message;
    } finally {
      this.#show(this.#waiting.filter((each) => each !== pending));
    }
  }
}
