// A chat as a competent developer would write it for Node.js: Apollo Server, graphql-ws, mongodb and ioredis.
// It uses the same rows and indexes in MongoDB as bench/baseline, and accepts the same operations.
// `node server.mjs PORT MONGO_URL DATABASE REDIS_URL`. GET /readyz answers 200 once it is ready.

import { createServer } from "node:http";

import { ApolloServer } from "@apollo/server";
import { expressMiddleware } from "@as-integrations/express5";
import { makeExecutableSchema } from "@graphql-tools/schema";
import express from "express";
import { useServer } from "graphql-ws/use/ws";
import { Redis } from "ioredis";
import { MongoClient } from "mongodb";
import { WebSocketServer } from "ws";

import { Broadcast } from "./broadcast.mjs";
import { Chat } from "./chat.mjs";
import { contextOf } from "./context.mjs";
import { resolvers, typeDefs } from "./schema.mjs";

const [port, mongoUrl, database, redisUrl] = process.argv.slice(2);

const mongo = await new MongoClient(mongoUrl).connect();
const broadcast = new Broadcast(new Redis(redisUrl), new Redis(redisUrl), database);
const chat = new Chat(mongo.db(database), broadcast);
await chat.prepare();

const app = express();
const server = createServer(app);
const schema = makeExecutableSchema({ typeDefs, resolvers });

const sockets = new WebSocketServer({ server, path: "/graphql" });
useServer({ schema, context: ({ connectionParams }) => contextOf(chat, connectionParams?.Authorization) }, sockets);

const apollo = new ApolloServer({ schema, includeStacktraceInErrorResponses: false });
await apollo.start();
app.get("/readyz", (_request, response) => response.send("ready"));
app.use(
  "/graphql",
  express.json(),
  expressMiddleware(apollo, { context: async ({ req }) => contextOf(chat, req.headers.authorization) }),
);

// Other servers may be started at the same time, and many clients may connect at once.
server.listen({ port: Number(port), host: "127.0.0.1", backlog: 4096 });
