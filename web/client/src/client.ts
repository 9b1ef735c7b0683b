import { userActions } from "./actions";
import { connect, type Connection } from "./connection/connection";
import { openDisk } from "./disk";
import { Message as MessageQuery, SendMessage, type SendMessageInput } from "./gql";
import { peerIn } from "./ids";
import { openBlocks } from "./live/blocks";
import { eventListeners } from "./live/eventListeners";
import { openProfile } from "./live/profile";
import { openSessions } from "./live/sessions";
import { followPresences } from "./live/presence";
import { followChannelFeeds, isChannelOrThread } from "./live/channelFeeds";
import { startSync } from "./live/sync";
import { followTyping } from "./live/typing";
import { watchActivity } from "./live/activity";
import { openVoice } from "./live/voice";
import { openWorkspaces } from "./live/workspaces";
import { openHistory } from "./messages/history";
import { openOutbox } from "./messages/outbox";
import { openPins } from "./messages/pins";
import { openThread } from "./messages/thread";
import { openUploads } from "./messages/uploads";
import { holdForFiles } from "./messages/waitingFiles";
import { historyTopic, SESSIONS, sessionTopic, Store } from "./store/store";
import { cached, view } from "./store/view";
import type { ClientOptions, ConfabClient, History, Message, PendingMessage, SessionList, ThreadHistory, View } from "./types";

const STATE = "connection";
/** Longer than an answer may take. */
const REMOVE_UNUSED_EVERY_MS = 30_000;
/** In larger groups the server sends reactions only to devices that display the group. */
const MAX_MEMBERS_WITH_REACTIONS = 200;

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
      options.onSignedOut?.(why);
    },
  });
  const { api } = connection;

  /** Stored messages that no history shows yet, by key. */
  const storedButNotShown = new Map<string, PendingMessage>();
  const received = ({ idempotencyKey, conversationId }: Message) => {
    if (idempotencyKey && storedButNotShown.delete(idempotencyKey)) topics.changed(historyTopic(conversationId));
  };
  const typing = followTyping(() => api, topics, userId);
  const workspaces = openWorkspaces(api, store, connection);
  const pinsChanged = (message: Message, pinCount?: number) => {
    pins.changed(message);
    if (pinCount !== undefined) workspaces.setPinCount(message.conversationId, pinCount);
  };
  const channelFeeds = followChannelFeeds({ api, store, typing, received, pinsChanged });
  const presences = followPresences(api, topics);
  const profile = openProfile(() => api, topics, presences.of(userId));
  const events = eventListeners();
  const sync = startSync({ connection: () => connection, me: userId, store, workspaces, typing, received, pinsChanged, liveEvent: events.call, signedIn: profile.set });
  const sessions = openSessions(api, store, sync.ready);
  const blocks = openBlocks(api, store);

  const deliver = async (item: PendingMessage) => {
    const requestedAt = store.eventCount();
    const { message, session } = (await api.request(SendMessage, { input: inputOf(userId, item) })).sendMessage;
    store.applySessions([session]);
    const timeline = store.timelines.get(message.conversationId);
    store.applyMessages([message], requestedAt);
    const shown = timeline?.newest()?.items.some(({ id }) => id === message.id);
    if (timeline?.newest() && !shown && !timeline.append(message)) storedButNotShown.set(item.key, item);
    topics.changed(historyTopic(message.conversationId));
    const { threadOf } = item.draft;
    if (!threadOf || store.message(threadOf)?.thread) return;
    // This was the first reply: now there is a thread.
    const time = store.eventCount();
    const parent = await api.request(MessageQuery, { id: threadOf }).then(({ message: found }) => found, () => null); // An event also has it.
    if (parent) store.applyMessages([parent], time);
  };
  const histories = new Map<string, History>();
  const pendingChanged = () => store.timelines.forEach((_, id) => topics.changed(historyTopic(id)));
  const disk = openDisk(options.storage);
  // Without dots: names that begin with it belong to this user.
  const storagePrefix = `${options.storagePrefix ?? "confab"}.${options.url}.${encodeURIComponent(userId).replaceAll(".", "%2E")}.`;
  const outbox = openOutbox(disk, `${storagePrefix}outbox.`, deliver, pendingChanged);
  const voice = openVoice({ api, topics, workspaces, disk, name: `${storagePrefix}voice` });
  const waiting = holdForFiles(outbox, pendingChanged);
  const uploads = openUploads(api, options.url);

  const pending = () => [...storedButNotShown.values(), ...outbox.items().filter(({ key }) => !storedButNotShown.has(key)), ...waiting.items()];
  const isIn = (conversationId: string) => ({ draft, conversationId: place }: PendingMessage) =>
    draft.threadOf && store.message(draft.threadOf)?.thread?.id === conversationId
      ? true
      : place === conversationId && (!draft.threadOf || !!draft.broadcast);

  const isLargeGroup = (id: string) => {
    const { conversation } = store.session(id) ?? {};
    return conversation?.__typename === "Group" && conversation.memberCount > MAX_MEMBERS_WITH_REACTIONS;
  };
  const watch = (id: string) => {
    let unwatch: (() => void) | undefined;
    // A group may grow, and its session may arrive later.
    const check = () => {
      if (isChannelOrThread(id) || isLargeGroup(id)) unwatch ??= channelFeeds.watch(id);
    };
    check();
    const end = topics.on(sessionTopic(id), check);
    return () => (end(), unwatch?.());
  };
  const live = async (id: string) => {
    await sync.ready();
    if (isChannelOrThread(id)) await channelFeeds.live(id);
  };
  const pins = openPins({ store, api, watch, live });
  const messages = (id: string, { around }: { around?: number } = {}) =>
    cached(histories, `${around ?? ""} ${id}`, () =>
      openHistory(id, around ?? null, {
        store,
        api,
        watch: () => watch(id),
        live: () => live(id),
        pending: () => pending().filter(isIn(id)),
      }),
    );
  const lists = new Map<string, View<SessionList>>();
  const threads = new Map<string, ThreadHistory>();

  const stopWatching = watchActivity(connection.reportUse, connection.reportHidden);
  const removal = setInterval(() => store.removeUnused(), REMOVE_UNUSED_EVERY_MS);
  const stop = () => {
    stopWatching();
    clearInterval(removal);
    for (const each of [sync, sessions, workspaces, voice, channelFeeds, pins, blocks, presences, outbox, uploads]) each.stop();
    typing.end();
    connection.close();
  };
  connection.start();
  outbox.wake();

  return {
    userId,
    api,
    state: view(topics, [STATE], () => connection.state().connection),
    isConnected: view(topics, [STATE], () => connection.state().connected),
    isOffline: view(topics, [STATE], () => !connection.state().connected && connection.state().failures > 0),
    me: profile.me,
    updateProfile: profile.update,
    onEvent: events.add,
    sessions: (filter = {}) =>
      cached(lists, JSON.stringify([filter.subBiz, filter.categoryId]), () => view(topics, [SESSIONS], () => store.listSessions(filter))),
    session: sessions.of,
    categories: view(topics, [SESSIONS], () => store.listCategories()),
    workspaces: workspaces.list,
    reloadWorkspaces: workspaces.reload,
    workspace: workspaces.workspace,
    channel: workspaces.channel,
    messages,
    thread: (parent) =>
      cached(threads, parent.id, () =>
        openThread(parent, { store, api, historyOf: messages, pending: () => pending().filter(({ draft }) => draft.threadOf === parent.id) }),
      ),
    pinnedMessages: pins.of,
    ...blocks,
    ...voice,
    presence: presences.of,
    typing: typing.of,
    startTyping: typing.start,
    stopTyping: typing.stop,
    reportUse: connection.reportUse,
    reportHidden: connection.reportHidden,
    upload: uploads.begin,
    send: (conversationId, { files = [], ...draft }) =>
      files.length ? waiting.send(conversationId, draft, files) : outbox.send(conversationId, draft),
    retry: (key) => waiting.retry(key) || outbox.retry(key),
    discard: (key) => waiting.discard(key) || outbox.discard(key),
    ...userActions(api, store, workspaces, pins),
    stop,
    forget: () => {
      stop();
      disk.names(storagePrefix).forEach(disk.remove);
    },
  };
}

function inputOf(me: string, { key, conversationId, draft }: PendingMessage): SendMessageInput {
  const { text, replyToId, threadOf, ...rest } = draft;
  const [pair = "", subBiz] = conversationId.split("~");
  const peer = peerIn(pair, me);
  const place = threadOf ? { threadOf } : peer ? { toUserId: peer, ...(subBiz && { subBiz }) } : { conversationId };
  return { ...rest, ...place, content: text, idempotencyKey: key, ...(replyToId && { replyToId }) };
}
