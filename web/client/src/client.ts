import { userActions } from "./actions";
import { connect, type Connection } from "./connection/connection";
import { openDisk } from "./disk";
import { Message as MessageQuery, SendMessage, type SendMessageInput } from "./gql";
import { peerIn } from "./ids";
import { followPresences } from "./live/presence";
import { followRooms, isRoom } from "./live/rooms";
import { startSync } from "./live/sync";
import { followTyping } from "./live/typing";
import { watchUse } from "./live/use";
import { openWorkspaces } from "./live/workspaces";
import { openHistory } from "./messages/history";
import { openOutbox } from "./messages/outbox";
import { openThread } from "./messages/thread";
import { openUploads } from "./messages/uploads";
import { holdForFiles } from "./messages/waitingFiles";
import { historyTopic, SESSIONS, sessionTopic, Store } from "./store/store";
import { cached, view } from "./store/view";
import type { ClientOptions, ConfabClient, History, Message, PendingMessage, Session, SessionList, ThreadHistory, View } from "./types";

const STATE = "connection";
/** In larger groups the server sends reactions only to devices that display the group. */
const MOST_MEMBERS_WITH_REACTIONS = 200;

/** Connects as the user of the current token, loads the first screen, and keeps everything up to date until stop(). */
export function createClient(options: ClientOptions): ConfabClient {
  const { userId } = options.tokens.current();
  const store = new Store();
  const { topics } = store;

  const connection: Connection = connect(options, {
    loadScreen: () => sync.loadScreen(),
    changed: () => {
      topics.changed(STATE);
      if (!connection.state().connected) return;
      outbox.wake();
      uploads.wake();
    },
    signedOut: (why) => {
      stop();
      options.signedOut?.(why);
    },
  });
  const { api } = connection;

  /** Stored messages that no history shows yet, by key. */
  const unjoined = new Map<string, PendingMessage>();
  const received = ({ idempotencyKey, conversationId }: Message) => {
    if (idempotencyKey && unjoined.delete(idempotencyKey)) topics.changed(historyTopic(conversationId));
  };
  const typing = followTyping(() => api, topics, userId);
  const workspaces = openWorkspaces(api, store, connection);
  const rooms = followRooms({ api, store, typing, received, pinsChanged: workspaces.setPinCount });
  const presences = followPresences(api, topics);
  const sync = startSync({ connection: () => connection, me: userId, store, workspaces, typing, received });

  const deliver = async (item: PendingMessage) => {
    const asOf = store.time();
    const { message, session } = (await api.request(SendMessage, { input: inputOf(userId, item) })).sendMessage;
    store.applySessions([session]);
    const timeline = store.timelines.get(message.conversationId);
    store.applyMessages([message], asOf);
    const shown = timeline?.newest()?.items.some(({ id }) => id === message.id);
    if (timeline?.newest() && !shown && !timeline.append(message)) unjoined.set(item.key, item);
    topics.changed(historyTopic(message.conversationId));
    const { threadOf } = item.draft;
    if (!threadOf || store.message(threadOf)?.thread) return;
    // This was the first reply: now there is a thread.
    const time = store.time();
    const parent = await api.request(MessageQuery, { id: threadOf }).then(({ message: found }) => found, () => null); // An event tells of it too.
    if (parent) store.applyMessages([parent], time);
  };
  const histories = new Map<string, History>();
  const pendingChanged = () => store.timelines.forEach((_, id) => topics.changed(historyTopic(id)));
  const outbox = openOutbox(openDisk(options.storage), `${options.storagePrefix ?? "confab"}.${options.url}.${userId}`, deliver, pendingChanged);
  const waiting = holdForFiles(outbox, pendingChanged);
  const uploads = openUploads(api, options.url);

  const pending = () => [...unjoined.values(), ...outbox.items().filter(({ key }) => !unjoined.has(key)), ...waiting.items()];
  const isIn = (conversationId: string) => ({ draft, conversationId: place }: PendingMessage) =>
    draft.threadOf && store.message(draft.threadOf)?.thread?.id === conversationId
      ? true
      : place === conversationId && (!draft.threadOf || !!draft.broadcast);

  const isLargeGroup = (id: string) => {
    const { conversation } = store.session(id) ?? {};
    return conversation?.__typename === "Group" && conversation.memberCount > MOST_MEMBERS_WITH_REACTIONS;
  };
  const watch = (id: string) => () => {
    let unwatch: (() => void) | undefined;
    // A group may grow, and its session may come later.
    const check = () => {
      if (isRoom(id) || isLargeGroup(id)) unwatch ??= rooms.watch(id);
    };
    check();
    const end = topics.on(sessionTopic(id), check);
    return () => (end(), unwatch?.());
  };
  const messages = (id: string, { around }: { around?: number } = {}) =>
    cached(histories, `${around ?? ""} ${id}`, () =>
      openHistory(id, around ?? null, {
        store,
        api,
        watch: watch(id),
        live: async () => {
          await sync.ready();
          if (isRoom(id)) await rooms.live(id);
        },
        pending: () => pending().filter(isIn(id)),
      }),
    );
  const lists = new Map<string, View<SessionList>>();
  const sessions = new Map<string, View<Session | undefined>>();
  const threads = new Map<string, ThreadHistory>();

  const stopWatching = watchUse(connection.used, connection.hidden);
  const stop = () => {
    stopWatching();
    for (const each of [sync, workspaces, rooms, presences, outbox, uploads]) each.stop();
    typing.end();
    connection.close();
  };
  connection.start();
  outbox.wake();

  return {
    userId,
    api,
    state: view(topics, [STATE], () => connection.state().connection),
    sessions: (filter = {}) =>
      cached(lists, JSON.stringify([filter.subBiz, filter.categoryId]), () => view(topics, [SESSIONS], () => store.listSessions(filter))),
    session: (id) => cached(sessions, id, () => view(topics, [sessionTopic(id)], () => store.session(id))),
    workspaces: workspaces.list,
    reloadWorkspaces: workspaces.reload,
    workspace: workspaces.workspace,
    channel: workspaces.channel,
    messages,
    thread: (parent) =>
      cached(threads, parent.id, () =>
        openThread(parent, { store, api, historyOf: messages, pending: () => pending().filter(({ draft }) => draft.threadOf === parent.id) }),
      ),
    presence: presences.of,
    typing: typing.of,
    startTyping: typing.start,
    stopTyping: typing.stop,
    used: connection.used,
    hidden: connection.hidden,
    upload: uploads.begin,
    send: (conversationId, { files = [], ...draft }) =>
      files.length ? waiting.send(conversationId, draft, files) : outbox.send(conversationId, draft),
    retry: (key) => waiting.retry(key) || outbox.retry(key),
    discard: (key) => waiting.discard(key) || outbox.discard(key),
    ...userActions(api, store, workspaces),
    stop,
  };
}

function inputOf(me: string, { key, conversationId, draft }: PendingMessage): SendMessageInput {
  const { text, replyTo, threadOf, ...rest } = draft;
  const [pair = "", subBiz] = conversationId.split("~");
  const peer = peerIn(pair, me);
  const place = threadOf ? { threadOf } : peer ? { toUserId: peer, ...(subBiz && { subBiz }) } : { conversationId };
  return { ...rest, ...place, content: text, idempotencyKey: key, ...(replyTo && { replyToId: replyTo }) };
}
