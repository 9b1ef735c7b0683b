// messageEvents with three public clients across a restart, a kill and a change of servers: nothing lost, nothing twice.
import { ApolloClient, ApolloLink, InMemoryCache, gql } from "@apollo/client/core";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { Client, fetchExchange, subscriptionExchange } from "@urql/core";
import { createClient } from "graphql-ws";
import WebSocket from "ws";
import { EVENTS, Follower } from "./following.mjs";
import { sleep } from "./servers.mjs";

const MEANWHILE = 5;

const HINT = /retry in (\d+) ms/;

function socketClient(url, deployment, user, seconds = 3600) {
  let wait = 200;
  return createClient({
    url,
    webSocketImpl: WebSocket,
    connectionParams: () => ({ Authorization: `Bearer ${deployment.token(user, seconds)}` }),
    retryAttempts: 50,
    // A server that restarts says when each of its clients had best come back.
    retryWait: () => sleep(wait),
    shouldRetry: () => true,
    on: { closed: ({ reason }) => { wait = Number(HINT.exec(reason)?.[1] ?? 200); } },
  });
}

function byGraphqlWs(client, follower) {
  return client.subscribe({ query: EVENTS, variables: follower.variables }, follower.sink);
}

function byApollo(client, follower) {
  // Apollo copies a subscription's variables, so the cursor is put in place below it.
  const resuming = new ApolloLink((operation, forward) => {
    operation.variables = follower.variables;
    return forward(operation);
  });
  const apollo = new ApolloClient({
    cache: new InMemoryCache(),
    link: ApolloLink.from([resuming, new GraphQLWsLink(client)]),
  });
  const subscription = apollo.subscribe({ query: gql(EVENTS), fetchPolicy: "no-cache" }).subscribe({
    ...follower.sink,
    next: ({ data, error }) => follower.take({ data, errors: error && [error] }),
  });
  return () => {
    subscription.unsubscribe();
    apollo.stop();
  };
}

function byUrql(client, follower) {
  const urql = new Client({
    url: "http://127.0.0.1/unused",
    exchanges: [
      subscriptionExchange({
        forwardSubscription: ({ query }) => ({
          subscribe: (sink) => ({ unsubscribe: client.subscribe({ query, variables: follower.variables }, sink) }),
        }),
      }),
      fetchExchange,
    ],
  });
  const { unsubscribe } = urql.subscription(EVENTS, {}).subscribe(({ data, error }) => {
    if (error) follower.failure = error;
    else follower.take({ data });
  });
  return unsubscribe;
}

const CLIENTS = { "graphql-ws": byGraphqlWs, "Apollo Client": byApollo, urql: byUrql };

let turn = 0;

async function follow(deployment, start, { url, away, back = async () => {} }) {
  const user = `follower${(turn += 1)}`;
  const follower = new Follower();
  const client = socketClient(url, deployment, user);
  let closes = 0;
  client.on("closed", () => { closes += 1; });
  const stop = start(client, follower);
  const expected = [];
  const send = async (content, server) => {
    await deployment.send("bob", user, content, server);
    expected.push(content);
  };
  try {
    await follower.until("CaughtUp", () => follower.caughtUp.length > 0);
    await send("before", 0);
    await follower.heard("before");
    await away();
    await follower.until("the close", () => closes > 0);
    for (let number = 0; number < MEANWHILE; number += 1) await send(`meanwhile ${number}`, 1);
    await back();
    await follower.until("CaughtUp again", () => follower.caughtUp.length > 1);
    await send("after", 1);
    await follower.heard("after");
    follower.check(expected);
    return `${expected.length} messages, each once, in order`;
  } finally {
    stop();
    await client.dispose();
  }
}

async function live(deployment, start) {
  const user = `follower${(turn += 1)}`;
  const follower = new Follower();
  const client = socketClient(deployment.ws(0), deployment, user);
  const stop = start(client, follower);
  try {
    await follower.until("CaughtUp", () => follower.caughtUp.length > 0);
    for (let number = 0; number < MEANWHILE; number += 1) await deployment.send("bob", user, `live ${number}`);
    await follower.heard(`live ${MEANWHILE - 1}`);
    follower.check(Array.from({ length: MEANWHILE }, (_, number) => `live ${number}`));
    return `${MEANWHILE} messages, each once, in order`;
  } finally {
    stop();
    await client.dispose();
  }
}

const RENEW = "mutation ($token: String!) { renewAuth(token: $token) }";
const SHORT = 4;

// A token that is renewed in time: the subscription outlives the first one on the same connection.
async function renew(deployment, start) {
  const user = `follower${(turn += 1)}`;
  const follower = new Follower();
  const client = socketClient(deployment.ws(0), deployment, user, SHORT);
  let closes = 0;
  client.on("closed", () => { closes += 1; });
  const stop = start(client, follower);
  try {
    await follower.until("CaughtUp", () => follower.caughtUp.length > 0);
    const result = await new Promise((resolve, reject) => {
      const token = deployment.token(user, 3600);
      client.subscribe({ query: RENEW, variables: { token } }, { next: resolve, error: reject, complete() {} });
    });
    if (result.errors) throw new Error(JSON.stringify(result.errors));
    await sleep(1000 * (SHORT + 1));
    await deployment.send("bob", user, "later", 0);
    await follower.heard("later");
    follower.check(["later"]);
    if (closes) throw new Error("the connection was closed");
    return `good until ${result.data.renewAuth}, the first one was for ${SHORT} s`;
  } finally {
    stop();
    await client.dispose();
  }
}

export async function resuming(deployment, report) {
  const missing = deployment.controlled ? null : "servers of its own";
  for (const [name, start] of Object.entries(CLIENTS)) {
    await report(name, "messageEvents live", null, () => live(deployment, start));
    await report(name, "renewAuth in time: stays", null, () => renew(deployment, start));
    await report(name, "across a restart of its server", missing, () => follow(deployment, start, {
      url: deployment.ws(0),
      away: () => deployment.stop(0),
      back: () => deployment.start(0),
    }));
    let turns = 0;
    await report(name, "to another server when its own is killed", missing, async () => {
      try {
        return await follow(deployment, start, {
          url: () => deployment.ws(Math.min(1, turns++)),
          away: () => deployment.kill(0),
        });
      } finally {
        await deployment.start(0);
      }
    });
  }
}
