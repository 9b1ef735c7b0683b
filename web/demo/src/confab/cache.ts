/**
 * The normalised cache: one copy of each session, message and user, from whichever answer or event.
 *
 * Guarantees: the session list is always in display order, and the history in order of seq without duplicates, in whatever order
 * data arrives: both are computed from all cached objects. Older data never replaces newer data: versions tell which is newer, and
 * where there are none, the order of answers and events (answers.ts).
 */
import { cacheExchange, type Cache } from "@urql/exchange-graphcache";

import { embeddedTypes, MeDocument, MessageReactions, mutations, NotificationSettingsDocument, OwnPresenceDocument, PeerMarks, possibleTypes, SessionsDocument, TotalDocument } from "../gql";
import type { MessageEventsSubscription, MessageReactionsFragment, NotificationSettingsInput, ReadyQuery, RoomEventsSubscription, SessionPartsFragment, SyncSessionSubscription } from "../gql";
import type { AnswerOrder } from "./answers";
import { connectedHistory, dropDistantPages, newHistory } from "./history";
import { holdPin, pinnedMessages } from "./pins";
import { ERASED_NAME, isErased, sessionId } from "../../../client/src/ids";
import { withoutReaction, withReaction, type Reactions } from "./reactions";

/** The data that is dropped if events were missed. */
const HISTORIES = new Set(["messages", "arrived", "pinnedMessages", "pinned"]);

export function cache(me: string, order: AnswerOrder) {
  const sessionKey = (conversationId: string) => `Session:${sessionId(me, conversationId)}`;

  // The members of a list are stored one by one: answers that overtake each other are written into layers, and if a list were read,
  // extended and written back, one would hide the members of the other. The link on the list itself only notifies its readers.
  const look = (cache: Cache, list: string, of: { conversationId?: string }) => cache.link("Query", list, of, []);
  const remember = (cache: Cache, list: string, of: { conversationId?: string }, key: string) => {
    cache.link("Query", list, { ...of, key }, key);
    look(cache, list, of);
  };
  const remembered = (cache: Cache, list: string, of: { conversationId?: string }) => {
    cache.resolve("Query", list, of);
    return cache
      .inspectFields("Query")
      .filter(({ fieldName, arguments: args }) => fieldName === list && args?.key && args.conversationId === of.conversationId)
      .flatMap(({ fieldKey }) => (cache.resolve("Query", fieldKey) as string | undefined) ?? []);
  };

  const holdTotal = (cache: Cache, total: number) => cache.updateQuery({ query: TotalDocument }, () => ({ __typename: "Query", totalUnread: total }) as never);
  const dropHistory = (cache: Cache, of?: Set<string>) => {
    for (const { fieldName, arguments: args } of cache.inspectFields("Query")) {
      if (!HISTORIES.has(fieldName) || (of && !of.has(args?.conversationId as string))) continue;
      if (fieldName !== "arrived" || args?.key) cache.invalidate("Query", fieldName, args);
    }
  };

  /** Messages received since the page was loaded: a list separate from the pages, so that the order of arrival does not matter. */
  const arrive = (cache: Cache, { id, conversationId }: { id: string; conversationId: string }) =>
    remember(cache, "arrived", { conversationId }, `Message:${id}`);

  /** The expected result of a session change, displayed until the server answers. */
  const soon = (change: (args: never, writeSeq: number) => Partial<SessionPartsFragment>) => (args: { conversationId?: unknown }, cache: Cache) => {
    const id = sessionId(me, String(args.conversationId));
    const writeSeq = cache.resolve(`Session:${id}`, "writeSeq") as number | undefined;
    return writeSeq === undefined ? (null as never) : { __typename: "Session", id, ...change(args as never, writeSeq) };
  };

  /** One's own reaction, displayed until the server answers. */
  const reacting = (change: (reactions: Reactions, emoji: string) => Reactions) => (args: { messageId?: unknown; emoji?: unknown }, cache: Cache) => {
    const id = String(args.messageId);
    const before = cache.readFragment(MessageReactions, { __typename: "Message", id }) as MessageReactionsFragment | null;
    return (before && { __typename: "Message", id, reactions: change(before.reactions, String(args.emoji)) }) as never;
  };

  const holdReactions = (cache: Cache, { messageId: id, reactions }: { messageId: string; reactions: Reactions }) =>
    void cache.writeFragment(MessageReactions, { __typename: "Message", id, reactions } as never);

  /** An event that came before the answer to the user's own reaction may be older or newer than it, so the server is asked. */
  const reacted = (name: "addReaction" | "removeReaction", change: typeof withReaction) => (result: Record<string, unknown>, args: { emoji?: unknown }, cache: Cache) => {
    const { id } = result[name] as { id: string };
    if (!order.isOutdated(result[name] as object)) return;
    const held = cache.readFragment(MessageReactions, { __typename: "Message", id }) as MessageReactionsFragment | null;
    if (held) holdReactions(cache, { messageId: id, reactions: change(held.reactions, String(args.emoji)) });
    order.askForReactions(id);
  };

  const pinned = (name: "pinMessage" | "unpinMessage") => (result: Record<string, unknown>, _args: unknown, cache: Cache) =>
    order.isOutdated(result[name] as object) || holdPin(cache, result[name] as Parameters<typeof holdPin>[1]);

  const holdThread = (cache: Cache, { parentId, thread: { id } }: { parentId: string; thread: { id: string } }) => {
    cache.link({ __typename: "Message", id: parentId }, "thread", { __typename: "Thread", id });
    // The history was requested before the first reply.
    for (const { fieldName, fieldKey, arguments: args } of cache.inspectFields("Query")) {
      if (fieldName === "messages" && args?.conversationId === id && cache.resolve("Query", fieldKey) === null) cache.invalidate("Query", fieldName, args);
    }
  };

  const leaveOut = (data: Record<string, unknown>) =>
    Object.keys(data).forEach((field) => field !== "id" && field !== "__typename" && (data[field] = undefined));

  const holdPresence = (name: "setPresence" | "setCustomStatus") => (result: Record<string, unknown>, _args: unknown, cache: Cache) =>
    void cache.updateQuery({ query: OwnPresenceDocument }, () => ({ __typename: "Query", ready: { __typename: "Ready", presence: result[name] } }) as never);

  /** While the parts of a reset arrive, the server's data counts, even if its clock went back. */
  let inReset = false;
  let afterFirst = false;

  /** Erased users have their pseudonym as their name. */
  const named = (field: "displayName" | "title") => (parent: { displayName?: unknown; title?: unknown }) =>
    (isErased(String(parent[field])) ? ERASED_NAME : parent[field]) as string;

  return cacheExchange({
    possibleTypes,
    keys: Object.fromEntries(embeddedTypes.map((type) => [type, () => null])),

    resolvers: {
      User: { displayName: named("displayName") },
      /** It is the other person's name, which may change. */
      PrivateConversation: {
        title: (parent, _args, cache, info) => {
          const peer = cache.resolve(info.parentKey, "peer") as string | undefined;
          return named("title")({ title: (peer && cache.resolve(peer, "displayName")) ?? parent.title });
        },
      },
      Query: {
        /** All cached sessions of this list, pinned first by priority, then by writeTs, newest first. */
        sessions: (_parent, args, cache) => {
          if (cache.resolve("Query", "sessions", args) === undefined) return undefined as never;
          const pages = cache
            .inspectFields("Query")
            .filter(({ fieldName, arguments: page }) => fieldName === "sessions" && page?.subBiz == args.subBiz && page?.categoryId == args.categoryId)
            .map(({ fieldKey }) => cache.resolve("Query", fieldKey) as string);
          const is = (key: string, field: string) => cache.resolve(key, field) ?? null;
          // Channels are not in the list, and followed threads have their own.
          const isElsewhere = (key: string) => /^(Channel:|SubBizGateway:b_@threads$)/.test(String(is(key, "conversation")));
          const here = (key: string) => !isElsewhere(key) && is(key, "status") === "ACTIVE" && is(key, "subBiz") === (args.subBiz ?? null);
          const mine = remembered(cache, "known", {}).filter((key) => here(key) && (!args.categoryId || is(key, "categoryId") === args.categoryId));
          const rank = (key: string, field: string) => cache.resolve(key, field) as number;
          mine.sort((a, b) => rank(b, "priority") - rank(a, "priority") || rank(b, "writeTs") - rank(a, "writeTs"));
          const last = pages.at(-1)!;
          return {
            __typename: "SessionConnection",
            edges: mine.map((node) => ({ __typename: "SessionEdge", node })),
            pageInfo: cache.resolve(last, "pageInfo"),
            totalUnread: cache.resolve("Query", "totalUnread"),
            cursor: cache.resolve(last, "cursor"),
          } as never;
        },

        session: (_parent, args, cache) => {
          const key = sessionKey(String(args.conversationId));
          return (cache.resolve(key, "writeSeq") === undefined ? cache.resolve("Query", "session", args) : key) as never;
        },

        pinnedMessages: (_parent, args, cache) => pinnedMessages(cache, args) as never,
        /** Exists from the first event on, although it did not exist when it was requested. */
        thread: (_parent, args, cache) => {
          const key = `Thread:${String(args.id)}`;
          return (cache.resolve(key, "replyCount") === undefined ? cache.resolve("Query", "thread", args) : key) as never;
        },

        /**
         * The requested page and all cached messages without a gap to it, as one list in order of seq. A page before or after another one
         * is returned alone: it is only loaded, and displayed as part of the others.
         */
        messages: (_parent, args, cache) => {
          const asked = cache.resolve("Query", "messages", args) as string | null | undefined;
          const aroundSeq = (args.aroundSeq as number | undefined) ?? null;
          if (asked === undefined && aroundSeq === null) return undefined as never; // This page is not cached: fetch it.
          if (args.before != null || args.after != null) return asked as never;
          const conversationId = String(args.conversationId);
          const arrived = () => remembered(cache, "arrived", { conversationId });
          return (asked === null ? newHistory(cache, arrived()) : connectedHistory(cache, conversationId, asked, aroundSeq, arrived)) as never;
        },
      },
    },

    updates: {
      // The id is written first: other fields of an outdated answer are skipped here.
      Session: {
        id: (session, _args, cache) => {
          const key = `Session:${session.id as string}`;
          const held = (field: string) => (cache.resolve(key, field) as number | null | undefined) ?? 0;
          if (held("activeTs") > Number(session.activeTs) && !inReset) leaveOut(session);
          // The other person's positions move without the session's clock; they only grow.
          for (const mark of ["peerDeliveredSeq", "peerReadSeq"]) if (held(mark) > Number(session[mark])) session[mark] = undefined as never;
          remember(cache, "known", {}, key);
        },
      },
      Message: {
        id: (message, _args, cache) => {
          const held = (field: string) => cache.resolve(`Message:${message.id as string}`, field);
          const recalled = held("state") === "RECALLED" && message.state !== "RECALLED";
          // A thread never ends: this answer is older than its first reply.
          if (message.thread === null && held("thread")) message.thread = undefined as never;
          if (recalled || ((held("editCount") as number | undefined) ?? 0) > Number(message.editCount)) leaveOut(message);
          if (order.isOutdated(message)) for (const field of ["reactions", "isPinned"]) if (held(field) !== undefined) message[field] = undefined as never;
        },
      },
      Thread: {
        // The latest reply only becomes later.
        id: (thread, _args, cache) => {
          const held = cache.resolve(`Thread:${thread.id as string}`, "lastReplyAt") as string | null | undefined;
          if (!held || !thread.lastReplyAt || held <= (thread.lastReplyAt as string)) return;
          for (const field of ["replyCount", "participants", "lastReplyAt"]) thread[field] = undefined as never;
        },
      },
      SyncSession: { reset: (part) => void (inReset ||= !!part.reset) },
      Query: {
        /** The first screen answers the queries of its parts. */
        ready: (result, _args, cache) => {
          const { me, sessions, attention } = (result as unknown as ReadyQuery).ready;
          if (!sessions) return; // Only one's own presence.
          cache.updateQuery({ query: MeDocument }, () => ({ __typename: "Query", me }) as never);
          cache.updateQuery({ query: SessionsDocument, variables: {} }, () => ({ __typename: "Query", sessions: { ...sessions, totalUnread: attention.unread } }) as never);
          holdTotal(cache, attention.unread);
          look(cache, "known", {});
        },
        sessions: (result, _args, cache) =>
          (holdTotal(cache, (result.sessions as { totalUnread: number }).totalUnread), look(cache, "known", {})), // Another page of the list arrived,
        messages: (_result, args, cache) => {
          const conversationId = String(args.conversationId);
          look(cache, "arrived", { conversationId }); // or of a history.
          if (args.before != null || args.after != null) dropDistantPages(cache, conversationId, args);
        },
        syncSessions: (result, _args, cache) => holdTotal(cache, (result.syncSessions as { totalUnread: number }).totalUnread),
      },
      Mutation: {
        // Without an updater for a mutation, the cache treats unknown entities as new, and invalidates all others of that type.
        ...Object.fromEntries(mutations.map((name) => [name, () => {}])),
        sendMessage: (result, _args, cache) => arrive(cache, (result.sendMessage as { message: { id: string; conversationId: string } }).message),
        addReaction: reacted("addReaction", withReaction),
        removeReaction: reacted("removeReaction", withoutReaction),
        pinMessage: pinned("pinMessage"),
        unpinMessage: pinned("unpinMessage"),
        setPresence: holdPresence("setPresence"),
        setCustomStatus: holdPresence("setCustomStatus"),
        setNotificationSettings: (result, _args, cache) =>
          void cache.updateQuery({ query: NotificationSettingsDocument }, () => ({ __typename: "Query", notificationSettings: result.setNotificationSettings }) as never),
        removeDevice: (_result, { deviceId }, cache) => cache.invalidate({ __typename: "Device", id: deviceId as string }),
        assignCategory: (_result, _args, cache) => cache.invalidate("Query", "sessionCategories"),
      },
      Subscription: {
        syncSession: (result: SyncSessionSubscription, _args, cache) => {
          const { sessions, totalUnread, reason, reset, hasMore } = result.syncSession;
          holdTotal(cache, totalUnread);
          // After a reset this is the complete list: other sessions are gone.
          if (reset && !afterFirst) {
            const now = new Set(sessions.map(({ id }) => `Session:${id}`));
            for (const key of remembered(cache, "known", {})) if (!now.has(key)) cache.invalidate("Query", "known", { key });
            look(cache, "known", {});
          }
          inReset = afterFirst = reset && hasMore;
          // A user who joins a group again may read messages from the time between, without events for them.
          if (reason === "MEMBERSHIP") dropHistory(cache, new Set(sessions.map((each) => each.conversation.id)));
          cache.invalidate("Query", "sessionCategories");
        },
        channelEvents: (result: RoomEventsSubscription, _args, cache) => {
          const event = result.channelEvents;
          if (event.__typename === "ChannelMessage" && event.change === "CREATED") arrive(cache, event.message);
          if (event.__typename === "ChannelReactions") holdReactions(cache, event);
          if (event.__typename === "ChannelPins") holdPin(cache, event.message);
          if (event.__typename === "ChannelThread") holdThread(cache, event);
          if (event.__typename === "ChannelCaughtUp" && event.reset) dropHistory(cache, new Set([event.conversationId]));
        },
        messageEvents: (result: MessageEventsSubscription, _args, cache) => {
          const event = result.messageEvents;
          if (event.__typename === "MessageCreated") arrive(cache, event.message);
          if (event.__typename === "ReactionsChanged") holdReactions(cache, event);
          if (event.__typename === "PinsChanged") holdPin(cache, event.message);
          if (event.__typename === "ThreadChanged") holdThread(cache, event);
          // The cached history may have gaps.
          if (event.__typename === "CaughtUp" && event.reset) dropHistory(cache);
          if (event.__typename === "ReceiptAdvanced" && event.user.id !== me) {
            const key = sessionKey(event.conversationId);
            const [delivered, read] = ["peerDeliveredSeq", "peerReadSeq"].map((field) => cache.resolve(key, field) as number | null | undefined);
            if (delivered == null || read == null) return;
            const marks = { peerDeliveredSeq: Math.max(event.seq, delivered), peerReadSeq: event.status === "READ" ? Math.max(event.seq, read) : read };
            cache.writeFragment(PeerMarks, { __typename: "Session", id: sessionId(me, event.conversationId), ...marks });
          }
        },
      },
    },

    optimistic: {
      // Only the server knows how many messages stay unread after a lower seq.
      markRead: soon(({ upToSeq }: { upToSeq?: number }, writeSeq) =>
        upToSeq != null && upToSeq < writeSeq ? { unreadStatus: false } : { unreadCount: 0, unreadMentionCount: 0, unreadStatus: false },
      ),
      addReaction: reacting(withReaction),
      removeReaction: reacting(withoutReaction),
      setUnread: soon(() => ({ unreadStatus: true })),
      muteSession: soon(({ muted, until }: { muted: boolean; until?: string }) => ({ muteStatus: muted, mutedUntil: until ?? null })),
      pinSession: soon(({ priority }: { priority: number }) => ({ priority })),
      deleteSession: soon(() => ({ status: "INVALID" })),
      setNotificationSettings: ({ input }, cache) => {
        const before = cache.readQuery({ query: NotificationSettingsDocument })?.notificationSettings;
        if (!before) return null as never;
        const given = Object.entries(input as NotificationSettingsInput).filter(([, value]) => value != null);
        return { __typename: "NotificationSettings", ...before, ...Object.fromEntries(given.map(([name, value]) => [name, value === "" ? null : value])) } as never;
      },
    },
  });
}
