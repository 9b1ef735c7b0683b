// The use cases. MongoDB stores the data, and connected users are notified. Row forms: bench/baseline/rows.py.

import { GraphQLError } from "graphql";
import { ObjectId } from "mongodb";

const RECEIPTS_UP_TO = 200;

const privateId = (one, other) => `p_${[one, other].sort().join("_")}`;
const sessionId = (user, conversation) => `s_${user}_${conversation}`;

const fail = (code, message) => {
  throw new GraphQLError(message, { extensions: { code } });
};

const inOrder = (ids, rows) => {
  const found = new Map(rows.map((row) => [row._id, row]));
  return ids.map((id) => found.get(id) ?? null);
};

export class Chat {
  constructor(database, broadcast) {
    this.broadcast = broadcast;
    this.database = database;
    this.users = database.collection("users");
    this.messages = database.collection("messages", { writeConcern: { w: "majority", journal: true } });
    this.conversations = database.collection("conversations", { writeConcern: { w: 1 } });
    this.sessions = database.collection("sessions", { writeConcern: { w: 1 } });
  }

  async prepare() {
    const unique = { unique: true };
    const sent = { ...unique, partialFilterExpression: { idempotencyKey: { $exists: true } } };
    await this.database.collection("messages").createIndex({ conversationId: 1, seq: 1 }, unique);
    await this.database.collection("messages").createIndex({ senderId: 1, idempotencyKey: 1 }, sent);
    const sessions = this.database.collection("sessions");
    await sessions.createIndex({ conversationId: 1, userId: 1 }, unique);
    await sessions.createIndex({ userId: 1, writeTs: -1, _id: -1 });
    await sessions.createIndex({ userId: 1, activeTs: 1, _id: 1 });
    // Covers the sum of a user's unread counts.
    const unread = { partialFilterExpression: { unreadCount: { $gt: 0 } } };
    await sessions.createIndex({ userId: 1, unreadCount: 1 }, unread);
  }

  // Messages.

  async sendMessage(sender, { toUserId, conversationId, content, idempotencyKey }) {
    if (!content.trim() || content.length > 4000) fail("INVALID_INPUT", "content is 1 to 4000 characters.");
    if (idempotencyKey) {
      const message = await this.messages.findOne({ senderId: sender, idempotencyKey });
      if (message) return { message, replayed: true };
    }
    const message = {
      _id: `m_${new ObjectId()}`,
      conversationId: conversationId ?? privateId(sender, toUserId),
      senderId: sender,
      content,
      contentType: "TEXT",
      state: "NORMAL",
      createdAt: Date.now(),
      ...(idempotencyKey && { idempotencyKey }),
    };
    const conversation = await this.#append(message, toUserId);
    message.seq = conversation.seq;
    const [, [profile]] = await Promise.all([this.messages.insertOne(message), this.findUsers([sender])]);
    await this.#count(message);
    await this.broadcast.publish(conversation.memberIds, { kind: "message", message, sender: profile });
    return { message, replayed: false };
  }

  // Gives the message the conversation's next seq, and shows it as the last one.
  async #append(message, toUserId) {
    const sender = message.senderId;
    const shown = { $mergeObjects: [{ $literal: message }, { seq: "$seq" }] };
    const append = () =>
      this.conversations.findOneAndUpdate(
        { _id: message.conversationId, memberIds: sender },
        [{ $set: { seq: { $add: ["$seq", 1] } } }, { $set: { lastMessage: shown } }],
        { projection: { seq: 1, memberIds: 1 }, returnDocument: "after" },
      );
    let found = await append();
    if (!found && toUserId) {
      await this.#openPrivate(sender, toUserId);
      found = await append();
    }
    return found ?? fail("NOT_FOUND", "There is no such conversation.");
  }

  async #openPrivate(one, other) {
    const at = Date.now();
    const conversation = conversationRow(privateId(one, other), "PRIVATE", [one, other], at);
    const rows = conversation.memberIds.map((user) => sessionRow(user, conversation._id, at));
    await this.sessions.bulkWrite(
      rows.map((row) => ({ updateOne: { filter: { _id: row._id }, update: { $setOnInsert: row }, upsert: true } })),
    );
    await this.conversations.updateOne({ _id: conversation._id }, { $setOnInsert: conversation }, { upsert: true });
  }

  // Applies the message to its members' sessions. Several messages may arrive in any order: the newest one counts.
  async #count({ conversationId, senderId, seq, createdAt: at }) {
    const news = { writeSeq: seq, writeTs: at, activeTs: at };
    const read = { readSeq: seq, deliveredSeq: seq };
    await this.sessions.bulkWrite(
      [
        {
          updateMany: {
            filter: { conversationId, userId: { $ne: senderId } },
            update: { $inc: { unreadCount: 1 }, $max: news },
          },
        },
        {
          updateOne: {
            filter: { _id: sessionId(senderId, conversationId) },
            update: { $set: { unreadCount: 0 }, $max: { ...news, ...read } },
          },
        },
      ],
      { ordered: false },
    );
  }

  async listMessages(user, conversationId, { first, after, last, before }) {
    const newest = first == null;
    const limit = limitOf(first ?? last ?? 50);
    const seq = { $gt: after ? Number(after) : 0, ...(before && { $lt: Number(before) }) };
    const [member, rows] = await Promise.all([
      this.sessions.findOne({ _id: sessionId(user, conversationId) }, { projection: { _id: 1 } }),
      this.messages
        .find({ conversationId, seq }, { projection: { idempotencyKey: 0 } })
        .sort({ seq: newest ? -1 : 1 })
        .limit(limit + 1)
        .toArray(),
    ]);
    if (!member) return null;
    const shown = rows.slice(0, limit);
    if (newest) shown.reverse();
    return { rows: shown, more: rows.length > limit, newest };
  }

  // Sessions.

  async markRead(user, conversationId, upTo) {
    const _id = sessionId(user, conversationId);
    const session = (await this.sessions.findOne({ _id })) ?? fail("NOT_FOUND", "There is no such conversation.");
    const seq = Math.min(upTo ?? session.writeSeq, session.writeSeq);
    if (seq <= session.readSeq && !session.unreadCount) return session;
    const after = { conversationId, seq: { $gt: seq }, senderId: { $ne: user } };
    const left = seq < session.writeSeq ? await this.messages.countDocuments(after) : 0;
    const at = Date.now();
    const changed = await this.sessions.findOneAndUpdate(
      { _id },
      { $set: { unreadCount: left }, $max: { readSeq: seq, deliveredSeq: seq, activeTs: at } },
      { returnDocument: "after" },
    );
    const [conversation, [profile]] = await Promise.all([
      this.conversations.findOne({ _id: conversationId }, { projection: { memberIds: 1 } }),
      this.findUsers([user]),
    ]);
    await this.broadcast.publish([user], { kind: "session", reason: "READ", session: changed });
    if (conversation.memberIds.length <= RECEIPTS_UP_TO) {
      const receipt = { kind: "receipt", conversationId, user: profile, seq, at };
      await this.broadcast.publish(conversation.memberIds, receipt);
    }
    return changed;
  }

  async findSession(user, conversationId) {
    return this.sessions.findOne({ _id: sessionId(user, conversationId) });
  }

  // Sessions, newest first. before: the writeTs and id of the last one that is known.
  async listSessions(userId, before, limit) {
    const filter = { userId };
    if (before) {
      const [at, _id] = before;
      Object.assign(filter, { writeTs: { $lte: at }, $or: [{ writeTs: { $lt: at } }, { _id: { $lt: _id } }] });
    }
    return this.sessions.find(filter).sort({ writeTs: -1, _id: -1 }).limit(limit).toArray();
  }

  // Changed sessions, oldest change first.
  async listChanged(userId, since, limit) {
    const filter = { userId };
    if (since) {
      const [at, _id] = since;
      Object.assign(filter, { activeTs: { $gte: at }, $or: [{ activeTs: { $gt: at } }, { _id: { $gt: _id } }] });
    }
    return this.sessions.find(filter).sort({ activeTs: 1, _id: 1 }).limit(limit).toArray();
  }

  async totalUnread(userId) {
    const unread = { $match: { userId, unreadCount: { $gt: 0 } } };
    const sums = this.sessions.aggregate([unread, { $group: { _id: null, unread: { $sum: "$unreadCount" } } }]);
    const [sum] = await sums.toArray();
    return sum?.unread ?? 0;
  }

  // Groups and people.

  async createGroup(owner, { name, memberIds }) {
    const at = Date.now();
    const members = [...new Set([owner, ...memberIds])];
    if (members.length < 3) fail("GROUP_TOO_SMALL", "A group has at least three members.");
    const group = { ...conversationRow(`g_${new ObjectId()}`, "GROUP", members, at), name, ownerId: owner };
    const rows = members.map((user) => sessionRow(user, group._id, at));
    await this.sessions.insertMany(rows, { ordered: false });
    await this.conversations.insertOne(group);
    await Promise.all(
      rows.map((row) => this.broadcast.publish([row.userId], { kind: "session", reason: "MEMBERSHIP", session: row })),
    );
    return group;
  }

  async findUsers(ids) {
    const rows = await this.users.find({ _id: { $in: [...new Set(ids)] } }).toArray();
    return inOrder(ids, rows).map((row, place) => row ?? { _id: ids[place], displayName: ids[place] });
  }

  async findConversations(ids) {
    const asked = { _id: { $in: [...new Set(ids)] } };
    return inOrder(ids, await this.conversations.find(asked, { projection: { memberIds: 0 } }).toArray());
  }
}

export function limitOf(asked) {
  return asked >= 1 && asked <= 100 ? asked : fail("INVALID_INPUT", "A page has 1 to 100 entries.");
}

function conversationRow(_id, type, memberIds, createdAt) {
  return { _id, type, memberIds, memberCount: memberIds.length, seq: 0, lastMessage: null, createdAt };
}

function sessionRow(userId, conversationId, at) {
  return {
    _id: sessionId(userId, conversationId),
    userId,
    conversationId,
    writeSeq: 0,
    readSeq: 0,
    deliveredSeq: 0,
    unreadCount: 0,
    writeTs: at,
    activeTs: at,
  };
}
