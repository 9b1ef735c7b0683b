// messageEvents with three public clients across a restart, a kill and a change of servers: nothing lost, nothing twice.
import { ApolloClient, ApolloLink, InMemoryCache, gql } from "@apollo/client/core";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { Client, fetchExchange, subscriptionExchange } from "@urql/core";
import { createClient } from "graphql-ws";
import WebSocket from "ws";
import { EVENTS, Follower } from "./following.mjs";
import { sleep } from "./servers.mjs";

const MEANWHILE = 5;

function socketClient(url, deployment, user) {
  return createClient({
    url,
    webSocketImpl: WebSocket,
    connectionParams: () => ({ Authorization: `Bearer ${deployment.token(user)}` }),
    retryAttempts: 50,
    retryWait: () => sleep(200),
    shouldRetry: () => true,
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

export async function resuming(deployment, report) {
  const missing = deployment.controlled ? null : "servers of its own";
  for (const [name, start] of Object.entries(CLIENTS)) {
    await report(name, "messageEvents live", null, () => live(deployment, start));
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
