/** The types of the client. Times are milliseconds since the epoch unless they say otherwise. */
import type { ConnectionState } from "./connection/machine";
import type { ChannelPartsFragment, JoinVoiceMutation, MessageEventsSubscription, MessagePartsFragment, PresenceEventsSubscription } from "./gql";
import type { SessionPartsFragment, ThreadPartsFragment, UserPartsFragment, VoicePartsFragment, WorkspaceQuery, WorkspaceSummaryPartsFragment } from "./gql";

export type { ConnectionState };
export type Message = MessagePartsFragment;
export type Session = SessionPartsFragment;
export type User = UserPartsFragment;
export type Thread = ThreadPartsFragment;
export type Presence = PresenceEventsSubscription["presenceEvents"];
export type Workspace = Omit<NonNullable<WorkspaceQuery["workspace"]>, "channels">;
export type WorkspaceSummary = Omit<WorkspaceSummaryPartsFragment, "rev">;
export type VoiceState = VoicePartsFragment;
export type VoiceJoin = JoinVoiceMutation["joinVoice"];
/** An event of the user's private conversations, groups and followed threads, or a mention. */
export type LiveEvent = Exclude<MessageEventsSubscription["messageEvents"], { __typename: "CaughtUp" }>;

export interface Channel extends ChannelPartsFragment {
  /** The user's read state here; null if they never followed, wrote or read here. */
  readonly session: Session | null;
  /** 0 in channels that the user does not follow. */
  readonly unreadCount: number;
}

/** A value that changes. get() returns the same object until it changes, as React's useSyncExternalStore requires. */
export interface View<T> {
  get(): T;
  /** Calls the listener after each change, until the returned function is called. */
  subscribe(listener: () => void): () => void;
}

/** A GraphQL document as text. The types exist at compile time only. */
export interface Operation<Data, Variables> {
  readonly name: string;
  readonly text: string;
  readonly types?: (variables: Variables) => Data;
}

/** A failure that the server or the network reported. */
export class ConfabError extends Error {
  override readonly name = "ConfabError";
  constructor(
    message: string,
    /** One of the server's error codes, NETWORK if there was no answer, or STOPPED after stop(). */
    readonly code: string,
    /** True if the same request may succeed later. */
    readonly isRetryable: boolean,
    /** Milliseconds to wait before that; 0 if unknown. */
    readonly retryAfterMs = 0,
    /** The input that caused the error. */
    readonly field?: string,
  ) {
    super(message);
  }
}

export interface RequestOptions {
  signal?: AbortSignal;
  /** Over the WebSocket, for operations that concern this connection or its device. */
  overWebSocket?: boolean;
}

export interface Sink<Data> {
  next(data: Data): void;
  /** The subscription has ended, and the server would refuse it again. */
  error?(error: ConfabError): void;
  complete?(): void;
}

export interface Api {
  /** Rejects with a ConfabError, or with the signal's reason. Nothing is repeated, except once after a refused token. */
  request<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables, options?: RequestOptions): Promise<Data>;
  /**
   * Outlives the connection: a subscription with a variable `since` continues after its last event. If variables is a
   * function, it is called whenever the subscription begins again. Returns the function that ends it.
   */
  subscribe<Data, Variables extends object>(operation: Operation<Data, Variables>, variables: Variables | (() => Variables), sink: Sink<Data>): () => void;
  /** The server's clock, estimated from its answers. Use it instead of Date.now(), which may be hours off. */
  now(): number;
}

export interface SessionFilter {
  subBiz?: string;
  categoryId?: string;
}

export interface SessionCategory {
  readonly categoryId: string;
  readonly sessionCount: number;
  /** Without muted sessions. */
  readonly unreadCount: number;
}

export interface SessionList {
  /** "failed": the first screen was refused for good; error says why. */
  readonly status: "loading" | "ready" | "failed";
  /** In display order: by priority, then by writeTs, newest first. */
  readonly sessions: readonly Session[];
  /** The sum over all sessions that are not muted. */
  readonly totalUnread: number;
  readonly error?: ConfabError;
}

export interface HistoryState {
  readonly status: "loading" | "ready" | "failed";
  /** Without a gap, in order of seq. */
  readonly messages: readonly Message[];
  /** The user's messages that the server has not stored yet, in the order they were written. Empty while hasNewer. */
  readonly pending: readonly PendingMessage[];
  readonly hasOlder: boolean;
  readonly hasNewer: boolean;
  readonly error?: ConfabError;
}

export interface History extends View<HistoryState> {
  /** loadOlder and loadNewer do nothing if there are no more messages. They reject with a ConfabError. */
  loadOlder(): Promise<void>;
  loadNewer(): Promise<void>;
  /** Shows the messages around a seq; null: the newest. */
  jumpTo(seq: number | null): Promise<void>;
}

export interface PinnedMessagesState {
  readonly status: "loading" | "ready" | "failed";
  /** The latest pin first. */
  readonly messages: readonly Message[];
  readonly hasMore: boolean;
  readonly error?: ConfabError;
}

export interface PinnedMessages extends View<PinnedMessagesState> {
  /** Does nothing if there are no more messages. Rejects with a ConfabError. */
  loadMore(): Promise<void>;
}

export interface WorkspaceState {
  readonly status: "loading" | "ready" | "failed";
  readonly workspace?: Workspace;
  /** The channels that the user may see, by category and position. */
  readonly channels: readonly Channel[];
  readonly error?: ConfabError;
}

export interface ChannelState {
  readonly status: "loading" | "ready" | "failed";
  readonly channel?: Channel;
  readonly error?: ConfabError;
}

export interface ThreadState extends HistoryState {
  /** The message that the thread belongs to. */
  readonly parent?: Message;
  /** Null until somebody replies. */
  readonly thread: Thread | null;
}

export interface ThreadHistory extends Omit<History, "get"> {
  get(): ThreadState;
}

export interface UploadOptions {
  /** A description of a picture, for people who cannot see it. */
  description?: string;
  spoiler?: boolean;
  /** Default: the file's name. */
  filename?: string;
}

export interface UploadState {
  readonly status: "sending" | "checking" | "ready" | "failed" | "canceled";
  /** The part that was sent, 0 to 1. */
  readonly progress: number;
  /** Set when status is "ready". */
  readonly attachmentId?: string;
  readonly error?: ConfabError;
}

export interface Upload extends View<UploadState> {
  readonly conversationId: string;
  readonly file: Blob;
  /** A message that waits for the file is sent without it. */
  cancel(): void;
  /** Uploads a failed file again. */
  retry(): void;
}

export interface Draft {
  text: string;
  /** Ids of uploaded files. With send, give `files` instead. */
  attachmentIds?: string[];
  /** Id of a message of the same conversation. */
  replyToId?: string;
  /** Id of the message in whose thread this is written. */
  threadOf?: string;
  /** With threadOf: also show it in the conversation. */
  broadcast?: boolean;
  mentions?: string[];
  mentionAll?: boolean;
  mentionRoleIds?: string[];
  metadata?: unknown;
  silent?: boolean;
}

export interface PendingMessage {
  /** The idempotencyKey of the message that will be stored. */
  readonly key: string;
  /** The conversation that was given to send. With threadOf, that of the parent message. */
  readonly conversationId: string;
  readonly draft: Draft;
  readonly writtenAt: number;
  /** Why the server refused it, or one of its files, for good; null while it waits. */
  readonly failure: string | null;
  /** The message waits for these files. */
  readonly files?: readonly Upload[];
}

export interface Token {
  token: string;
  userId: string;
  /** By the clock of this device. */
  expiresAt: number;
}

/** The source of tokens: your sign-in service. */
export interface Tokens {
  current(): Token;
  /** Returns another token of the same user, used from then on. Null: the user has to sign in again. Rejects if a later attempt may succeed. */
  renew(): Promise<Token | null>;
}

export interface Device {
  deviceId: string;
  deviceType: "WEB" | "DESKTOP" | "MOBILE";
}

export type Storage = Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem" | "key" | "length">;

export interface ClientOptions {
  /** Absolute address of the API, for example https://chat.example.org/graphql. */
  url: string;
  tokens: Tokens;
  device: Device;
  /** Where unsent messages are stored. Default: localStorage if there is one, else memory. */
  storage?: Storage;
  /** Prefix of all names in the storage, so that two devices of one user can share a browser. Default: "confab". */
  storagePrefix?: string;
  /** Default: the global one. Node.js 20 needs the default export of `ws`. */
  webSocket?: unknown;
  /** Called when there are no more tokens, or this device was removed. The client has stopped. */
  onSignedOut?: (why: string) => void;
}

export interface ConfabClient {
  readonly userId: string;
  readonly api: Api;
  readonly state: View<ConnectionState>;
  /** True while the server has accepted the WebSocket. */
  isConnected: View<boolean>;
  /** True if there is no connection, and an attempt to connect has failed or the connection was lost. */
  isOffline: View<boolean>;
  /** The user's profile; undefined until the first screen is loaded. */
  me: View<User | undefined>;
  /** Calls the listener once for each event of messageEvents, after it was applied. Events that were missed while there was no connection are left out. */
  onEvent(listener: (event: LiveEvent) => void): () => void;
  sessions(filter?: SessionFilter): View<SessionList>;
  /** Undefined until it is known; null if the user has none. A session that is not in the list is requested for the first subscriber. */
  session(conversationId: string): View<Session | null | undefined>;
  /** The categories in use, the one with the newest message first. Complete when all sessions are loaded. */
  categories: View<readonly SessionCategory[]>;
  /** The workspaces of the user. */
  workspaces: View<readonly WorkspaceSummary[]>;
  /** Call it after the user has joined or left a workspace on this device, or when counts and members should be current. */
  reloadWorkspaces(): Promise<void>;
  /** Loading begins with the first subscriber; this also holds for the following views. */
  workspace(id: string): View<WorkspaceState>;
  channel(id: string): View<ChannelState>;
  /** The history of any conversation. around: a seq to begin at, instead of the newest messages. */
  messages(conversationId: string, options?: { around?: number }): History;
  /** The replies to a message. Reply by send(parent.conversationId, { text, threadOf: parent.id }). */
  thread(parent: Pick<Message, "id" | "conversationId">): ThreadHistory;
  /** The pinned messages of a conversation. */
  pinnedMessages(conversationId: string): PinnedMessages;
  /** The latest block first; undefined until they are loaded. */
  blockedUsers: View<readonly User[] | undefined>;
  /** Call it when other devices may have changed the list: there are no events about it. Rejects with a ConfabError. */
  reloadBlockedUsers(): Promise<void>;
  /** The voice channel that this device has joined with this client, also before the page was loaded again. */
  voiceChannelId: View<string | null>;
  presence(userId: string): View<Presence | undefined>;
  /** Others who are typing in a conversation whose messages are on the screen. */
  typing(conversationId: string): View<readonly User[]>;

  /** Call this for every key. A signal is sent at most once in 3 s. */
  startTyping(conversationId: string): void;
  stopTyping(conversationId: string): void;
  /** Call these outside a browser, when the device is used or hidden. Without a call it counts as idle after 5 minutes. */
  reportUse(): void;
  reportHidden(): void;

  /** Starts an upload at once. */
  upload(conversationId: string, file: Blob & { name?: string }, options?: UploadOptions): Upload;
  /**
   * Stores the message on this device and returns at once. It is sent in order, and stored by the server exactly once. With files it
   * waits until all of them are ready, and is lost with the page until then.
   */
  send(conversationId: string, draft: Draft & { files?: readonly Upload[] }): PendingMessage;
  /** Sends a failed message again, as another message. */
  retry(key: string): void;
  discard(key: string): void;
  /** The following reject with a ConfabError. */
  edit(messageId: string, text: string): Promise<Message>;
  recall(messageId: string): Promise<Message>;
  react(messageId: string, emoji: string): Promise<void>;
  unreact(messageId: string, emoji: string): Promise<void>;
  pinMessage(messageId: string): Promise<Message>;
  unpinMessage(messageId: string): Promise<Message>;
  /** Removes the link previews of the user's message for good. */
  suppressEmbeds(messageId: string): Promise<Message>;
  markRead(conversationId: string, upToSeq?: number): Promise<void>;
  markManyRead(conversationIds: readonly string[]): Promise<void>;
  markUnread(conversationId: string): Promise<void>;
  followChannel(channelId: string, follow: boolean): Promise<void>;
  followThread(threadId: string, follow: boolean): Promise<void>;
  lockThread(threadId: string, locked: boolean): Promise<void>;
  /** categoryId: null removes the sessions from their category. */
  moveToCategory(conversationIds: readonly string[], categoryId: string | null): Promise<void>;
  /** priority: 0 to 1000; 0 unpins. */
  pinSession(conversationId: string, priority?: number): Promise<void>;
  /** until: ISO 8601; without it, the mute does not end by itself. */
  muteSession(conversationId: string, muted: boolean, until?: string): Promise<void>;
  /** Removes the session from the list until the next message. */
  deleteSession(conversationId: string): Promise<void>;
  /** avatarUrl: "" removes the picture. */
  updateProfile(change: { displayName?: string; avatarUrl?: string }): Promise<User>;
  blockUser(user: User): Promise<void>;
  unblockUser(userId: string): Promise<void>;
  /** These need a connection: they concern this device. The answer has url and token if there is a media server. */
  joinVoice(channelId: string, options?: { selfMute?: boolean; selfDeaf?: boolean }): Promise<VoiceJoin>;
  leaveVoice(): Promise<void>;
  updateVoice(change: { selfMute?: boolean; selfDeaf?: boolean; video?: boolean; screen?: boolean }): Promise<VoiceState>;
  /** Ends the connection and all timers. The views keep their last value. */
  stop(): void;
  /** Stops the client, and removes the user's data from this device, also unsent messages. Call it when the user signs out. */
  forget(): void;
}
