// The types and their resolvers, which read MongoDB's rows.

import { GraphQLScalarType } from "graphql";

import { limitOf } from "./chat.mjs";

export const typeDefs = `#graphql
  scalar Timestamp
  scalar Cursor
  scalar DateTime
  enum ConversationType { PRIVATE GROUP }
  enum ContentType { TEXT }
  enum MessageState { NORMAL }
  enum SessionStatus { ACTIVE }
  enum ReceiptStatus { READ }

  type User { id: ID! displayName: String! avatarUrl: String isBot: Boolean! }

  type Message {
    id: ID! conversationId: ID! seq: Int! contentType: ContentType! content: String state: MessageState!
    createdAt: DateTime! sender: User!
  }

  interface Conversation { id: ID! type: ConversationType! title: String! }
  type PrivateConversation implements Conversation { id: ID! type: ConversationType! title: String! peer: User! }
  type Group implements Conversation {
    id: ID! type: ConversationType! title: String! name: String! memberCount: Int! owner: User!
  }

  type Session {
    id: ID! conversation: Conversation! lastMessage: Message writeSeq: Int! readSeq: Int! deliveredSeq: Int!
    unreadCount: Int! writeTs: Timestamp! activeTs: Timestamp! status: SessionStatus! muteStatus: Boolean!
    priority: Int!
  }

  type PageInfo { hasNextPage: Boolean! hasPreviousPage: Boolean! startCursor: String endCursor: String }
  type SessionEdge { node: Session! cursor: String! }
  type SessionConnection { edges: [SessionEdge!]! pageInfo: PageInfo! cursor: Cursor! totalUnread: Int! }
  type SessionDelta {
    sessions: [Session!]! cursor: Cursor! hasMore: Boolean! reset: Boolean! totalUnread: Int!
  }
  type MessageEdge { node: Message! cursor: String! }
  type MessageConnection { edges: [MessageEdge!]! pageInfo: PageInfo! }

  type MessageCreated { message: Message! cursor: Cursor! }
  type ReceiptAdvanced { conversationId: ID! user: User! status: ReceiptStatus! seq: Int! cursor: Cursor! }
  type CaughtUp { cursor: Cursor! reset: Boolean! }
  union MessageEvent = MessageCreated | ReceiptAdvanced | CaughtUp

  input SendMessageInput { content: String! toUserId: ID conversationId: ID idempotencyKey: String }
  input CreateGroupInput { name: String! memberIds: [ID!]! }
  type SendMessagePayload { message: Message! session: Session! replayed: Boolean! }

  type Query {
    sessions(first: Int = 50, after: String): SessionConnection!
    syncSessions(since: Cursor, first: Int = 100): SessionDelta!
    messages(conversationId: ID!, first: Int, after: String, last: Int, before: String): MessageConnection
  }
  type Mutation {
    sendMessage(input: SendMessageInput!): SendMessagePayload!
    markRead(conversationId: ID!, upToSeq: Int): Session!
    createGroup(input: CreateGroupInput!): Group!
  }
  type Subscription { messageEvents(since: Cursor, conversationId: ID): MessageEvent! }
`;

const cursorOf = (at, id = "") => `${at}:${id}`;

function positionOf(cursor) {
  if (!cursor) return null;
  const place = cursor.indexOf(":");
  return [Number(cursor.slice(0, place)), cursor.slice(place + 1)];
}

function pageInfo(edges, hasNextPage, hasPreviousPage) {
  return { hasNextPage, hasPreviousPage, startCursor: edges[0]?.cursor, endCursor: edges.at(-1)?.cursor };
}

const peerOf = ({ _id }, { viewer, users }) => {
  const [, one, other] = _id.split("_");
  return users.load(other === viewer ? one : other);
};

const conversationFields = { id: (row) => row._id };

// Pub/sub events as the members of MessageEvent. null: an event for another subscription.
function messageEvent(event, conversationId) {
  if (event.kind === "ready") return { __typename: "CaughtUp", cursor: cursorOf(Date.now()), reset: false };
  const of = event.message?.conversationId ?? event.conversationId;
  if (conversationId && conversationId !== of) return null;
  if (event.kind === "message") {
    const message = { ...event.message, sender: event.sender };
    return { __typename: "MessageCreated", message, cursor: cursorOf(message.createdAt) };
  }
  if (event.kind === "receipt") {
    return { __typename: "ReceiptAdvanced", ...event, status: "READ", cursor: cursorOf(event.at) };
  }
  return null;
}

export const resolvers = {
  DateTime: new GraphQLScalarType({ name: "DateTime", serialize: (ms) => new Date(ms).toISOString() }),

  Query: {
    async sessions(_, { first, after }, { chat, viewer }) {
      const limit = limitOf(first);
      const began = Date.now();
      const rows = await chat.listSessions(viewer, positionOf(after), limit + 1);
      const edges = rows.slice(0, limit).map((node) => ({ node, cursor: cursorOf(node.writeTs, node._id) }));
      return { edges, pageInfo: pageInfo(edges, rows.length > limit, Boolean(after)), cursor: cursorOf(began) };
    },
    async syncSessions(_, { since, first }, { chat, viewer }) {
      const limit = limitOf(first);
      const began = Date.now();
      const rows = await chat.listChanged(viewer, positionOf(since), limit + 1);
      const sessions = rows.slice(0, limit);
      const last = sessions.at(-1);
      const cursor = last ? cursorOf(last.activeTs, last._id) : (since ?? cursorOf(began));
      return { sessions, cursor, hasMore: rows.length > limit, reset: false };
    },
    async messages(_, { conversationId, ...page }, { chat, viewer }) {
      const found = await chat.listMessages(viewer, conversationId, page);
      if (!found) return null;
      const edges = found.rows.map((node) => ({ node, cursor: String(node.seq) }));
      const { more, newest } = found;
      const beyond = newest ? [Boolean(page.before), more] : [more, Boolean(page.after)];
      return { edges, pageInfo: pageInfo(edges, ...beyond) };
    },
  },

  Mutation: {
    sendMessage: (_, { input }, { chat, viewer }) => chat.sendMessage(viewer, input),
    markRead: (_, { conversationId, upToSeq }, { chat, viewer }) => chat.markRead(viewer, conversationId, upToSeq),
    createGroup: (_, { input }, { chat, viewer }) => chat.createGroup(viewer, input),
  },

  Subscription: {
    messageEvents: {
      async *subscribe(_, { conversationId }, { chat, viewer }) {
        for await (const event of chat.broadcast.subscribe(viewer)) {
          const shown = messageEvent(event, conversationId);
          if (shown) yield { messageEvents: shown };
        }
      },
    },
  },

  SessionConnection: { totalUnread: (_, __, { chat, viewer }) => chat.totalUnread(viewer) },
  SessionDelta: { totalUnread: (_, __, { chat, viewer }) => chat.totalUnread(viewer) },
  SendMessagePayload: {
    session: ({ message }, _, { chat, viewer }) => chat.findSession(viewer, message.conversationId),
  },
  Session: {
    id: (row) => row._id,
    conversation: (row, _, { conversations }) => conversations.load(row.conversationId),
    lastMessage: async (row, _, { conversations }) => (await conversations.load(row.conversationId)).lastMessage,
    status: () => "ACTIVE",
    muteStatus: () => false,
    priority: () => 0,
  },
  Conversation: { __resolveType: (row) => (row.type === "GROUP" ? "Group" : "PrivateConversation") },
  PrivateConversation: {
    ...conversationFields,
    title: async (row, _, context) => (await peerOf(row, context)).displayName,
    peer: (row, _, context) => peerOf(row, context),
  },
  Group: {
    ...conversationFields,
    title: (row) => row.name,
    owner: (row, _, { users }) => users.load(row.ownerId),
  },
  Message: {
    id: (row) => row._id,
    // An event brings its sender.
    sender: (row, _, { users }) => row.sender ?? users.load(row.senderId),
  },
  User: { id: (row) => row._id, isBot: (row) => row.isBot ?? false },
};
