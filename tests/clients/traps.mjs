// Problems of each library with its default settings: the reasons for the guide's code. If one of these fails with a new version
// of a library, the guide can drop its workaround.
import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } from "@apollo/client/core";
import { RetryLink } from "@apollo/client/link/retry";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import { Client, cacheExchange, fetchExchange, subscriptionExchange } from "@urql/core";
import { cacheExchange as graphcache } from "@urql/exchange-graphcache";
import { createClient } from "graphql-ws";
import assert from "node:assert/strict";
import { Environment, Network, Observable, RecordSource, Store, fetchQuery } from "relay-runtime";
import { of } from "rxjs";
import WebSocket from "ws";
import { BUSY, Person, answerOnce, cuttable, done, jwt, loseAnswers, server, sleep, until } from "./scenario.mjs";

const EVENTS = "subscription E($since: Cursor) { messageEvents(since: $since) { __typename ... on MessageCreated { cursor message { id content } } ... on CaughtUp { cursor } } }";
const SEND = "mutation S($input: SendMessageInput!) { sendMessage(input: $input) { message { id conversationId content } } }";
const MESSAGES = "query M($id: ID!) { messages(conversationId: $id) { edges { node { id content } } } }";

// graphcache would warn about the missing schema.
console.warn = () => {};

const bob = new Person("bob");
await bob.ask("{ me { id } }");

async function somebody() {
  const person = new Person("alice");
  await person.ask("{ me { id } }");
  const headers = { authorization: `Bearer ${jwt(person.name)}` };
  return { person, headers, params: { Authorization: headers.authorization } };
}

async function givesUp() {
  const { params } = await somebody();
  const way = await cuttable();
  const socket = createClient({ webSocketImpl: WebSocket, url: way.url.replace("http", "ws"), connectionParams: params, retryWait: () => sleep(20) });
  let failed;
  let started = false;
  socket.subscribe({ query: EVENTS }, { next() { started = true; }, error: (error) => { failed = error; }, complete() {} });
  await until("its start", () => started);
  way.away = true;
  way.cut();
  await until("its giving up", () => failed);
  way.close();
  done("graphql-ws gives up if it cannot connect");
}

async function noToken() {
  const socket = createClient({
    webSocketImpl: WebSocket, url: server.replace("http", "ws"), retryWait: () => sleep(5), connectionParams: async () => { throw new Error("no token"); },
  });
  const failed = await new Promise((resolve) => { socket.subscribe({ query: EVENTS }, { next() {}, error: resolve, complete() {} }); });
  assert.equal(failed.message, "no token");
  done("graphql-ws gives up if connectionParams fails");
}

async function sendsAgain() {
  const { person, params } = await somebody();
  const way = await cuttable();
  const { conversationId } = await bob.send(person.name, "first");
  const socket = createClient({
    webSocketImpl: WebSocket, url: way.url.replace("http", "ws"), connectionParams: params, retryWait: () => sleep(20), shouldRetry: () => true, retryAttempts: 1000,
  });
  await new Promise((resolve) => {
    socket.subscribe({ query: EVENTS }, { next: resolve, error() {}, complete() {} });
  });
  way.deaf = true;
  const answered = new Promise((resolve) => {
    socket.subscribe({ query: SEND, variables: { input: { conversationId, content: "twice" } } }, { next: resolve, error() {}, complete() {} });
  });
  await until("the message", async () => (await bob.contents(conversationId)).includes("twice"));
  way.deaf = false;
  way.cut();
  await answered;
  assert.deepEqual(await bob.contents(conversationId), ["first", "twice", "twice"]);
  await socket.dispose();
  way.close();
  done("graphql-ws sends a mutation again after a disconnect");
}

// How a library's subscription restarts after a disconnect, directly on graphql-ws: returns the last events.
async function forgets(name, start) {
  const { person, params } = await somebody();
  const way = await cuttable();
  const socket = createClient({
    webSocketImpl: WebSocket, url: way.url.replace("http", "ws"), connectionParams: params, retryWait: () => sleep(20), shouldRetry: () => true, retryAttempts: 1000,
  });
  const heard = [];
  let since = null;
  // A getter, which works with graphql-ws itself.
  const variables = { get since() { return since; } };
  const stop = start(socket, variables, ({ messageEvents: event }) => {
    since = event.cursor;
    heard.push(event.message?.content ?? event.__typename);
  });
  await until("its start", () => heard.length === 1);
  way.away = true;
  way.cut();
  await sleep(50);
  await bob.send(person.name, "missed");
  way.away = false;
  await until("its coming back", () => heard.filter((each) => each === "CaughtUp").length === 2);
  await bob.send(person.name, "after");
  await until("what came after", () => heard.includes("after"));
  const missed = !heard.includes("missed");
  stop();
  await socket.dispose();
  way.close();
  assert.equal(missed, name !== "graphql-ws", `${name}: ${heard}`);
  if (missed) done(`${name} subscribes again with the variables of the first time`);
}

const forgetting = [
  forgets("graphql-ws", (socket, variables, take) => socket.subscribe({ query: EVENTS, variables }, { next: ({ data }) => take(data), error() {}, complete() {} })),
  forgets("Apollo", (socket, variables, take) => {
    const client = new ApolloClient({ cache: new InMemoryCache(), link: new GraphQLWsLink(socket) });
    const subscription = client.subscribe({ query: gql(EVENTS), variables, fetchPolicy: "no-cache" }).subscribe(({ data }) => take(data));
    return () => { subscription.unsubscribe(); client.stop(); };
  }),
  forgets("urql with graphcache", (socket, variables, take) => {
    const client = new Client({ url: server, preferGetMethod: false, exchanges: [graphcache({}), subscriptionExchange({
      forwardSubscription: (request) => ({ subscribe: (sink) => ({ unsubscribe: socket.subscribe(request, sink) }) }),
    })] });
    return client.subscription(EVENTS, variables).subscribe(({ data }) => take(data)).unsubscribe;
  }),
];

async function optimisticShadow() {
  const { person, headers } = await somebody();
  const { conversationId } = await bob.send(person.name, "first");
  let answer;
  const held = new Promise((resolve) => { answer = resolve; });
  const client = new ApolloClient({
    cache: new InMemoryCache(),
    link: new HttpLink({ uri: server, headers, fetch: async (uri, request) => {
      if (request.body.includes("sendMessage")) await held;
      return fetch(uri, request);
    } }),
  });
  const query = gql(MESSAGES);
  const variables = { id: conversationId };
  await client.query({ query, variables });
  const shown = () => client.readQuery({ query, variables }, true).messages.edges.map(({ node }) => node.content);
  const append = (message) => client.cache.updateQuery({ query, variables }, ({ messages }) => (
    { messages: { ...messages, edges: [...messages.edges, { __typename: "MessageEdge", node: message }] } }));
  const sending = client.mutate({
    mutation: gql(SEND),
    variables: { input: { conversationId, content: "ours" } },
    optimisticResponse: { sendMessage: { __typename: "SendMessagePayload", message: { __typename: "Message", id: "new", conversationId, content: "ours" } } },
    update: (cache, { data }) => append(data.sendMessage.message),
  });
  await until("ours", () => shown().includes("ours"));
  append({ __typename: "Message", id: "m_theirs", content: "theirs" });
  const meanwhile = shown();
  answer();
  await sending;
  assert.deepEqual(meanwhile, ["first", "ours"]);
  assert(shown().includes("theirs"));
  client.stop();
  done("Apollo hides messages of others while an optimisticResponse is active");
}

async function optimisticLayer() {
  const { person, headers } = await somebody();
  const { conversationId } = await bob.send(person.name, "first");
  let answer;
  const held = new Promise((resolve) => { answer = resolve; });
  const variables = { id: conversationId };
  const append = (cache, message) => cache.updateQuery({ query: MESSAGES, variables }, ({ messages }) => (
    { messages: { ...messages, edges: [...messages.edges, { __typename: "MessageEdge", node: message }] } }));
  const client = new Client({
    url: server, preferGetMethod: false, fetchOptions: { headers },
    fetch: async (url, request) => {
      if (request.body.includes("sendMessage")) await held;
      return fetch(url, request);
    },
    exchanges: [
      graphcache({
        optimistic: { sendMessage: () => ({ __typename: "SendMessagePayload", message: { __typename: "Message", id: "new", conversationId, content: "ours" } }) },
        updates: {
          Mutation: { sendMessage: ({ sendMessage }, _, cache) => append(cache, sendMessage.message) },
          Subscription: { messageEvents: ({ messageEvents }, _, cache) => append(cache, messageEvents.message) },
        },
      }),
      fetchExchange,
      subscriptionExchange({ forwardSubscription: () => ({ subscribe(sink) { tell = sink; return { unsubscribe() {} }; } }) }),
    ],
  });
  let tell;
  let shown = [];
  const stop = client.query(MESSAGES, variables).subscribe(({ data }) => { if (data) shown = data.messages.edges.map(({ node }) => node.content); }).unsubscribe;
  await until("the first", () => shown.length === 1);
  const live = client.subscription(EVENTS, {}).subscribe(() => {}).unsubscribe;
  const sending = client.mutation(SEND, { input: { conversationId, content: "ours" } }).toPromise();
  await until("ours", () => shown.includes("ours"));
  const theirs = { __typename: "Message", id: "m_theirs", content: "theirs" };
  tell.next({ data: { messageEvents: { __typename: "MessageCreated", cursor: "one", message: theirs } } });
  await sleep(20);
  const meanwhile = [...shown];
  answer();
  await sending;
  await until("theirs", () => shown.includes("theirs"));
  assert.deepEqual(meanwhile, ["first", "ours"]);
  stop();
  live();
  done("urql with graphcache hides messages of others while an optimistic answer is active");
}

async function cutsOff() {
  const edge = (id) => ({ __typename: "SessionEdge", cursor: id === "new" ? "" : id, node: { __typename: "Session", id } });
  const pageInfo = (endCursor) => ({ __typename: "PageInfo", endCursor, hasNextPage: true, startCursor: null, hasPreviousPage: false });
  const query = gql("query L($after: String) { sessions(after: $after) { edges { cursor node { id } } pageInfo { endCursor hasNextPage } } }");
  const pages = [["a", "b"], ["c"]];
  const client = new ApolloClient({
    cache: new InMemoryCache({ typePolicies: { Query: { fields: { sessions: relayStylePagination() } } } }),
    link: new ApolloLink(() => {
      const ids = pages.shift();
      return of({ data: { sessions: { __typename: "SessionConnection", edges: ids.map(edge), pageInfo: pageInfo(ids.at(-1)) } } });
    }),
  });
  const watched = client.watchQuery({ query });
  const subscription = watched.subscribe(() => {});
  await until("a page", () => watched.getCurrentResult().data?.sessions);
  client.cache.updateQuery({ query }, ({ sessions }) => ({ sessions: { ...sessions, edges: [...sessions.edges, edge("new")] } }));
  await watched.fetchMore({ variables: { after: "b" } });
  assert.deepEqual(client.readQuery({ query }).sessions.edges.map(({ node }) => node.id), ["a", "b", "c"]);
  subscription.unsubscribe();
  client.stop();
  done("Apollo's relayStylePagination drops edges after the cursor when the next page comes");
}

async function documentCache() {
  const { person, headers } = await somebody();
  const { conversationId } = await bob.send(person.name, "first");
  let asked = 0;
  const client = new Client({
    url: server, preferGetMethod: false, exchanges: [cacheExchange, fetchExchange], fetchOptions: { headers },
    fetch: (...request) => { asked += 1; return fetch(...request); },
  });
  let shown = false;
  const stop = client.query(MESSAGES, { id: conversationId }).subscribe(({ data }) => { shown ||= !!data; }).unsubscribe;
  await until("the messages", () => shown);
  await client.mutation(SEND, { input: { conversationId, content: "second" } });
  await until("the messages again", () => asked === 3);
  stop();
  done("urql's own cacheExchange repeats every query with a Message after each sendMessage");
}

// These change the network, so they run one after the other.
async function retryLink() {
  const { person, headers } = await somebody();
  const { conversationId } = await bob.send(person.name, "first");
  const client = new ApolloClient({
    cache: new InMemoryCache(),
    link: ApolloLink.from([new RetryLink({ delay: { initial: 5 } }), new HttpLink({ uri: server, headers })]),
  });
  const variables = { input: { conversationId, content: "second" } };
  loseAnswers(1);
  await client.mutate({ mutation: gql(SEND), variables });
  assert.deepEqual(await bob.contents(conversationId), ["first", "second", "second"]);
  done("Apollo's RetryLink sends a mutation again");
  answerOnce(BUSY);
  await assert.rejects(client.mutate({ mutation: gql(SEND), variables }));
  client.stop();
  done("Apollo's RetryLink never sees a GraphQL error");
}

async function relayErrors() {
  const result = { data: { me: null }, errors: BUSY };
  const environment = new Environment({ store: new Store(new RecordSource()), network: Network.create(async () => result) });
  const node = { kind: "Request", fragment: { kind: "Fragment", name: "Q", type: "Query", argumentDefinitions: [], selections: [], metadata: null },
    operation: { kind: "Operation", name: "Q", argumentDefinitions: [], selections: [] },
    params: { name: "Q", id: null, cacheID: "q", text: "{ me }", operationKind: "query", metadata: {} } };
  await fetchQuery(environment, node, {}).toPromise();
  done("Relay ignores errors if there is data");
}

const relayForgets = forgets("Relay", (socket, variables, take) => {
  const network = Network.create(() => null, ({ text }, given) => Observable.create((sink) => socket.subscribe({ query: text, variables: given }, sink)));
  const operation = { text: EVENTS, name: "E", operationKind: "subscription" };
  const subscription = network.execute(operation, { ...variables }, {}).subscribe({ next: ({ data }) => take(data) });
  return () => subscription.unsubscribe();
});

await Promise.all([givesUp(), noToken(), sendsAgain(), optimisticShadow(), optimisticLayer(), cutsOff(), documentCache(), relayErrors(), relayForgets, ...forgetting]);
await retryLink();
