import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, gql } from "@apollo/client/core";
import { RetryLink } from "@apollo/client/link/retry";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import { map } from "rxjs";
import { trying, waitBefore } from "./errors.mjs";
import { authorizedFetch } from "./http.mjs";
import { MESSAGES, MESSAGE_EVENTS, MUTATIONS, SESSIONS, SESSION_EVENTS, SYNC, isRepeatable } from "./operations.mjs";
import { openSocket, resuming } from "./socket.mjs";
import { keepInSync } from "./sync.mjs";

// possibleTypes: web/types/confab.possible-types.json. The cache needs it for interfaces and unions.
export function apolloClient({ url, token, possibleTypes, socket = openSocket({ url, token }) }) {
  // RetryLink only sees network errors: turn retryable GraphQL errors into such errors.
  const raise = new ApolloLink((operation, forward) => forward(operation).pipe(map((result) => {
    if (result.errors && waitBefore(result.errors) !== null) throw new CombinedGraphQLErrors(result);
    return result;
  })));
  // RetryLink would repeat every mutation, so it repeats none: apolloAct repeats them.
  const retry = new RetryLink({
    attempts: (attempt, { operationType }, error) => operationType === "query" && attempt < 10 && waitBefore(error) !== null,
    delay: (attempt, operation, error) => waitBefore(error, attempt),
  });

  return new ApolloClient({
    link: ApolloLink.split(
      ({ operationType }) => operationType === "subscription",
      new GraphQLWsLink(resuming(socket)),
      ApolloLink.from([retry, raise, new HttpLink({ uri: url, fetch: authorizedFetch(token) })]),
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

// Executes a mutation of operations.mjs. The cache takes messages, sessions and groups by their ids.
export function apolloAct(client) {
  return async (name, variables) => {
    const mutate = () => client.mutate({ mutation: gql(MUTATIONS[name]), variables });
    return (await trying(mutate, isRepeatable(name, variables))).data[name];
  };
}

// Call it once, after sign-in. Returns a function that stops.
export async function startApollo(client, chat) {
  const { data: { sessions } } = await client.query({ query: sessionsQuery });
  const listen = (query, since, take) => {
    const subscription = client.subscribe({ query: gql(query), variables: { since } }).subscribe(({ data, error }) => {
      if (error) console.error(error);
      else take(data);
    });
    return () => subscription.unsubscribe();
  };
  return keepInSync({
    chat,
    page: { ...sessions, sessions: sessions.edges.map(({ node }) => node) },
    sync: async (since) => (await client.query({ query: gql(SYNC), variables: { since }, fetchPolicy: "no-cache" })).data.syncSessions,
    sessionEvents: (since, take) => listen(SESSION_EVENTS, since, ({ syncSession }) => take(syncSession)),
    messageEvents: (since, take) => listen(MESSAGE_EVENTS, since, ({ messageEvents }) => take(messageEvents)),
    refetch() {
      client.cache.evict({ fieldName: "messages", broadcast: false });
      client.refetchQueries({ include: [sessionsQuery, messagesQuery] });
    },
  });
}

export function openConversation(client, conversationId) {
  return client.watchQuery({ query: messagesQuery, variables: { conversationId } });
}
