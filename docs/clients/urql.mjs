import { Client, fetchExchange, subscriptionExchange } from "@urql/core";
import { cacheExchange } from "@urql/exchange-graphcache";
import { relayPagination } from "@urql/exchange-graphcache/extras";
import { retryExchange } from "@urql/exchange-retry";
import { trying, waitBefore } from "./errors.mjs";
import { authorizedFetch, requests } from "./http.mjs";
import { MESSAGES, MESSAGE_EVENTS, MUTATIONS, SESSIONS, SESSION_EVENTS, SYNC, isRepeatable } from "./operations.mjs";
import { openSocket, resuming } from "./socket.mjs";
import { keepInSync } from "./sync.mjs";

const pagesOfMessages = relayPagination({ mergeMode: "outwards" });

// schema: web/types/confab.introspection.json. The cache needs it for interfaces and unions.
export function urqlClient({ url, token, schema, socket = openSocket({ url, token }) }) {
  const live = resuming(socket);
  const client = new Client({
    url,
    fetch: authorizedFetch(token),
    preferGetMethod: false,
    exchanges: [
      cacheExchange({
        schema,
        // Objects without an id are part of their parent.
        keys: { SessionDelta: () => null, Delivery: () => null, Receipt: () => null, GroupMember: () => null, SeqRange: () => null },
        resolvers: {
          Query: {
            sessions: relayPagination(),
            // relayPagination takes null, the answer for a conversation without messages, for a missing answer.
            messages: (parent, args, cache, info) => pagesOfMessages(parent, args, cache, info)
              ?? (cache.resolve("Query", "messages", args) === null ? null : undefined),
          },
        },
        updates: {
          Subscription: {
            messageEvents({ messageEvents: { reset } }, _, cache) {
              if (reset) forgetPages(cache); // the gap was too large
            },
          },
        },
      }),
      // By default it retries once, only after network errors, and any mutation. urqlAct repeats mutations.
      retryExchange({
        maxNumberAttempts: 10,
        initialDelayMs: 250,
        maxDelayMs: 2_500,
        retryIf: (error, { kind }) => kind === "query" && waitBefore(error) !== null,
      }),
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query, variables }) => ({
          subscribe: (sink) => ({ unsubscribe: live.subscribe({ query, variables }, sink) }),
        }),
      }),
    ],
  });
  // Without the cache, which can delay the answer of a query while a mutation changes the same sessions.
  return Object.assign(client, { request: requests(url, token) });
}

// The displayed pages are fetched again, the others when they are displayed.
function forgetPages(cache) {
  for (const { fieldName, fieldKey } of cache.inspectFields("Query")) {
    if (fieldName === "sessions" || fieldName === "messages") cache.invalidate("Query", fieldKey);
  }
}

// Returns the data of a result. Throws its error.
async function dataOf(result) {
  const { data, error } = await result;
  if (error) throw error;
  return data;
}

// Executes a mutation of operations.mjs. The cache takes messages, sessions and groups by their ids.
export function urqlAct(client) {
  return async (name, variables) =>
    (await trying(() => dataOf(client.mutation(MUTATIONS[name], variables)), isRepeatable(name, variables)))[name];
}

// Call it once, after sign-in. Returns a function that stops.
export async function startUrql(client, chat) {
  const listen = (query, since, take) => client.subscription(query, { since }).subscribe(({ data, error }) => {
    if (error) console.error(error);
    else take(data);
  }).unsubscribe;
  const { sessions } = await dataOf(client.query(SESSIONS, {}));
  return keepInSync({
    chat,
    page: { ...sessions, sessions: sessions.edges.map(({ node }) => node) },
    sync: async (since) => (await trying(() => client.request(SYNC, { since }))).data.syncSessions,
    sessionEvents: (since, take) => listen(SESSION_EVENTS, since, ({ syncSession }) => take(syncSession)),
    messageEvents: (since, take) => listen(MESSAGE_EVENTS, since, ({ messageEvents }) => take(messageEvents)),
    refetch() {}, // forgetPages does it
  });
}
