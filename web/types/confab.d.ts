// Made from the schema by web/types/make.mjs (make types). Copy it; don't edit it.
export type Maybe<T> = T | null;
export type InputMaybe<T> = Maybe<T>;
/** All built-in and custom scalars, mapped to their actual values */
export type Scalars = {
  ID: { input: string; output: string; }
  String: { input: string; output: string; }
  Boolean: { input: boolean; output: boolean; }
  Int: { input: number; output: number; }
  Float: { input: number; output: number; }
  /**
   * Opaque position on the caller's own clock, valid on any server of the deployment. Cursors from syncSessions and from
   * subscriptions are interchangeable. Session state can be caught up from a cursor up to 30 days old. Events are replayed
   * individually for at least the user's last 1,000 events of the last 24 hours. If a cursor cannot be resumed exactly (too
   * old, another user's, malformed), nothing is skipped silently: the answer has reset: true and carries what a new client
   * would get.
   */
  Cursor: { input: string; output: string; }
  /** ISO 8601 in UTC with milliseconds, for example 2026-01-02T03:04:05.678Z. */
  DateTime: { input: string; output: string; }
  /**
   * Any JSON value. Where clients store it: at most 8 KiB when encoded, at most 8 levels deep (a scalar is level 0); else
   * INVALID_INPUT.
   */
  JSON: { input: unknown; output: unknown; }
  /** Milliseconds since the Unix epoch on the server's clock, as a JSON number below 2^53. */
  Timestamp: { input: number; output: number; }
};

export type AccessEnded = {
  __typename: 'AccessEnded';
  conversationId: Scalars['ID']['output'];
};

/** At most 5 per user. */
export type Activity = {
  __typename: 'Activity';
  type: ActivityType;
  name: Scalars['String']['output'];
  details?: Maybe<Scalars['String']['output']>;
  state?: Maybe<Scalars['String']['output']>;
  startedAt?: Maybe<Scalars['DateTime']['output']>;
  endsAt?: Maybe<Scalars['DateTime']['output']>;
};

export type ActivityInput = {
  type: ActivityType;
  name: Scalars['String']['input'];
  details?: InputMaybe<Scalars['String']['input']>;
  state?: InputMaybe<Scalars['String']['input']>;
  startedAt?: InputMaybe<Scalars['DateTime']['input']>;
  endsAt?: InputMaybe<Scalars['DateTime']['input']>;
};

export type ActivityType =
  | 'PLAYING'
  | 'STREAMING'
  | 'LISTENING'
  | 'WATCHING'
  | 'COMPETING';

/**
 * url: valid for one hour for whoever has it; issued only to people who may read the message at that moment. Served with
 * nosniff, and as a download unless browsers display the type safely (images except SVG, audio, video, PDF, plain text).
 * Range and If-None-Match are supported. Null until READY, and once the message is recalled. Images: orientation is
 * applied and all metadata removed; sizeBytes is the size as stored.
 */
export type Attachment = Node & {
  __typename: 'Attachment';
  id: Scalars['ID']['output'];
  filename: Scalars['String']['output'];
  contentType: Scalars['String']['output'];
  sizeBytes: Scalars['Int']['output'];
  description?: Maybe<Scalars['String']['output']>;
  state: AttachmentState;
  /** Images and videos, in pixels. thumbHash: a preview of about 25 bytes (ThumbHash, base64) to show meanwhile. */
  width?: Maybe<Scalars['Int']['output']>;
  height?: Maybe<Scalars['Int']['output']>;
  thumbHash?: Maybe<Scalars['String']['output']>;
  spoiler: Scalars['Boolean']['output'];
  url?: Maybe<Scalars['String']['output']>;
  /**
   * Images: scaled to the smallest of 160, 320, 640 and 1280 pixels that is not below width (else 1280); never larger than
   * the original.
   */
  thumbnailUrl?: Maybe<Scalars['String']['output']>;
};


/**
 * url: valid for one hour for whoever has it; issued only to people who may read the message at that moment. Served with
 * nosniff, and as a download unless browsers display the type safely (images except SVG, audio, video, PDF, plain text).
 * Range and If-None-Match are supported. Null until READY, and once the message is recalled. Images: orientation is
 * applied and all metadata removed; sizeBytes is the size as stored.
 */
export type AttachmentThumbnailUrlArgs = {
  width?: InputMaybe<Scalars['Int']['input']>;
};

/**
 * SCANNING: an external scanner is configured and has not answered. REJECTED: by the scanner, or an image that cannot be
 * decoded safely.
 */
export type AttachmentState =
  | 'UPLOADING'
  | 'SCANNING'
  | 'READY'
  | 'REJECTED'
  | 'REMOVED';

/**
 * What should light a badge. unread: totalUnread. mentions: unread mentions of the caller by name or role, everywhere,
 * where not muted. threads: followed threads with unread replies. Derived from read positions, so reading on one device
 * clears it on all.
 */
export type Attention = {
  __typename: 'Attention';
  unread: Scalars['Int']['output'];
  mentions: Scalars['Int']['output'];
  threads: Scalars['Int']['output'];
};

export type AuditConnection = {
  __typename: 'AuditConnection';
  edges: Array<AuditEdge>;
  pageInfo: PageInfo;
};

export type AuditEdge = {
  __typename: 'AuditEdge';
  node: AuditEntry;
  cursor: Scalars['String']['output'];
};

export type AuditEntry = Node & {
  __typename: 'AuditEntry';
  id: Scalars['ID']['output'];
  action: Scalars['String']['output'];
  targetId?: Maybe<Scalars['ID']['output']>;
  reason?: Maybe<Scalars['String']['output']>;
  createdAt: Scalars['DateTime']['output'];
  actor: User;
  onBehalfOf?: Maybe<User>;
  before?: Maybe<Scalars['JSON']['output']>;
  after?: Maybe<Scalars['JSON']['output']>;
};

export type Ban = {
  __typename: 'Ban';
  reason?: Maybe<Scalars['String']['output']>;
  until?: Maybe<Scalars['DateTime']['output']>;
  createdAt: Scalars['DateTime']['output'];
  user: User;
  by: User;
};

export type BanConnection = {
  __typename: 'BanConnection';
  edges: Array<BanEdge>;
  pageInfo: PageInfo;
};

export type BanEdge = {
  __typename: 'BanEdge';
  node: Ban;
  cursor: Scalars['String']['output'];
};

export type CaughtUp = {
  __typename: 'CaughtUp';
  cursor: Scalars['Cursor']['output'];
  reset: Scalars['Boolean']['output'];
};

export type Channel = Conversation & Node & {
  __typename: 'Channel';
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  /** The caller's read state; null if they never followed, wrote or read here. */
  session?: Maybe<Session>;
  kind: ChannelKind;
  name: Scalars['String']['output'];
  topic?: Maybe<Scalars['String']['output']>;
  metadata?: Maybe<Scalars['JSON']['output']>;
  position: Scalars['Int']['output'];
  isArchived: Scalars['Boolean']['output'];
  /** New members follow it. */
  isDefault: Scalars['Boolean']['output'];
  inheritsPermissions: Scalars['Boolean']['output'];
  historyVisibility: HistoryVisibility;
  /**
   * Seconds between two messages of one member, 0 to 21600. BYPASS_SLOW_MODE and MANAGE_MESSAGES are exempt. Earlier:
   * SLOW_MODE with retryAfterMs.
   */
  slowModeSeconds: Scalars['Int']['output'];
  rev: Scalars['Timestamp']['output'];
  viewerFollows: Scalars['Boolean']['output'];
  /** PRIVATE: its members. PUBLIC: its followers. */
  memberCount: Scalars['Int']['output'];
  /** PRIVATE: its members. PUBLIC: its followers. By name. */
  members: WorkspaceMemberConnection;
  workspace: Workspace;
  category?: Maybe<ChannelCategory>;
  /** Null without MANAGE_ROLES. inheritsPermissions: the category's overwrites apply. */
  overwrites?: Maybe<Array<PermissionOverwrite>>;
  viewerPermissions: Array<Permission>;
  /** When the caller may write next; null: now. */
  viewerMayWriteAt?: Maybe<Scalars['DateTime']['output']>;
  /** Messages so far that count as unread until read. unreadCount is this minus Session.readCount. */
  messageCount: Scalars['Int']['output'];
  pinCount: Scalars['Int']['output'];
  voiceStates: Array<VoiceState>;
};


export type ChannelMembersArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
  query?: InputMaybe<Scalars['String']['input']>;
};

/**
 * Somebody wrote in a followed channel. At most one per second and channel, the last one always. The same for all
 * followers, so it carries no unread count: unread = messageCount - session.readCount.
 */
export type ChannelActivity = {
  __typename: 'ChannelActivity';
  channelId: Scalars['ID']['output'];
  writeSeq: Scalars['Int']['output'];
  messageCount: Scalars['Int']['output'];
  lastMessageAt: Scalars['Timestamp']['output'];
  rev: Scalars['Timestamp']['output'];
};

export type ChannelCategory = Node & {
  __typename: 'ChannelCategory';
  id: Scalars['ID']['output'];
  workspaceId: Scalars['ID']['output'];
  name: Scalars['String']['output'];
  position: Scalars['Int']['output'];
  overwrites: Array<PermissionOverwrite>;
};

export type ChannelCaughtUp = {
  __typename: 'ChannelCaughtUp';
  conversationId: Scalars['ID']['output'];
  rev: Scalars['Timestamp']['output'];
  reset: Scalars['Boolean']['output'];
};

export type ChannelChanged = {
  __typename: 'ChannelChanged';
  rev: Scalars['Timestamp']['output'];
  channel: Channel;
};

export type ChannelConnection = {
  __typename: 'ChannelConnection';
  edges: Array<ChannelEdge>;
  pageInfo: PageInfo;
};

/** gone: no longer followed, or no longer visible. */
export type ChannelDelta = {
  __typename: 'ChannelDelta';
  channels: Array<Channel>;
  gone: Array<Scalars['ID']['output']>;
  cursor: Scalars['Cursor']['output'];
  hasMore: Scalars['Boolean']['output'];
  attention: Attention;
  reset: Scalars['Boolean']['output'];
};

export type ChannelEdge = {
  __typename: 'ChannelEdge';
  node: Channel;
  cursor: Scalars['String']['output'];
};

export type ChannelEvent = ChannelMessage | ChannelPins | ChannelReactions | ChannelThread | TypingStarted | TypingStopped | AccessEnded | ChannelCaughtUp;

/** Deleted, or no longer visible to the caller; which of the two is not revealed. */
export type ChannelGone = {
  __typename: 'ChannelGone';
  workspaceId: Scalars['ID']['output'];
  channelId: Scalars['ID']['output'];
  rev: Scalars['Timestamp']['output'];
};

export type ChannelKind =
  | 'PUBLIC'
  | 'PRIVATE'
  | 'VOICE';

export type ChannelMessage = {
  __typename: 'ChannelMessage';
  conversationId: Scalars['ID']['output'];
  change: MessageChange;
  message: Message;
  rev: Scalars['Timestamp']['output'];
};

export type ChannelPins = {
  __typename: 'ChannelPins';
  conversationId: Scalars['ID']['output'];
  pinCount: Scalars['Int']['output'];
  message: Message;
  rev: Scalars['Timestamp']['output'];
};

/** As ReactionsChanged, PinsChanged and ThreadChanged, on the conversation's own clock. */
export type ChannelReactions = {
  __typename: 'ChannelReactions';
  conversationId: Scalars['ID']['output'];
  messageId: Scalars['ID']['output'];
  reactions: Array<Reaction>;
  rev: Scalars['Timestamp']['output'];
};

export type ChannelThread = {
  __typename: 'ChannelThread';
  conversationId: Scalars['ID']['output'];
  parentId: Scalars['ID']['output'];
  rev: Scalars['Timestamp']['output'];
  thread: Thread;
};

/** BLOCK: REJECTED before the message takes a place. FLAG: a report. TIMEOUT: BLOCK and a time-out of ten minutes. */
export type ContentAction =
  | 'BLOCK'
  | 'FLAG'
  | 'TIMEOUT';

export type ContentRule = {
  __typename: 'ContentRule';
  id: Scalars['ID']['output'];
  words: Array<Scalars['String']['output']>;
  patterns: Array<Scalars['String']['output']>;
  action: ContentAction;
  exemptRoleIds: Array<Scalars['ID']['output']>;
  exemptChannelIds: Array<Scalars['ID']['output']>;
};

export type ContentRuleInput = {
  words?: InputMaybe<Array<Scalars['String']['input']>>;
  patterns?: InputMaybe<Array<Scalars['String']['input']>>;
  action: ContentAction;
  exemptRoleIds?: InputMaybe<Array<Scalars['ID']['input']>>;
  exemptChannelIds?: InputMaybe<Array<Scalars['ID']['input']>>;
};

/**
 * SYSTEM: written by the server, or by a caller with role service into any conversation (INVALID_INPUT from others); takes
 * a seq, never counts as unread, is never in offlineMessages; its sender is whoever acted, or the user acted for; its
 * systemEvent is CUSTOM. BOT_COMMAND: an ordinary message that bots look for.
 */
export type ContentType =
  | 'TEXT'
  | 'SYSTEM'
  | 'BOT_COMMAND';

/** title: the other person's name, the name of the group or channel, the subBiz, or the start of a thread's parent message. */
export type Conversation = {
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  session?: Maybe<Session>;
};

export type ConversationType =
  | 'PRIVATE'
  | 'GROUP'
  | 'CHANNEL'
  | 'SUB_BIZ'
  | 'THREAD';

/** name: 1 to 80 characters; topic: up to 1,024. */
export type CreateChannelInput = {
  workspaceId: Scalars['ID']['input'];
  name: Scalars['String']['input'];
  kind?: ChannelKind;
  topic?: InputMaybe<Scalars['String']['input']>;
  categoryId?: InputMaybe<Scalars['ID']['input']>;
  position?: InputMaybe<Scalars['Int']['input']>;
  isDefault?: InputMaybe<Scalars['Boolean']['input']>;
  memberIds?: InputMaybe<Array<Scalars['ID']['input']>>;
  historyVisibility?: InputMaybe<HistoryVisibility>;
  slowModeSeconds?: InputMaybe<Scalars['Int']['input']>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
  idempotencyKey?: InputMaybe<Scalars['String']['input']>;
};

/** name: 1 to 100 characters. The same idempotencyKey from the same creator within 24 hours answers the first group. */
export type CreateGroupInput = {
  name: Scalars['String']['input'];
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
  memberIds: Array<Scalars['ID']['input']>;
  historyVisibility?: InputMaybe<HistoryVisibility>;
  subBiz?: InputMaybe<Scalars['String']['input']>;
  idempotencyKey?: InputMaybe<Scalars['String']['input']>;
};

export type CreateUploadInput = {
  filename: Scalars['String']['input'];
  sizeBytes: Scalars['Int']['input'];
  contentType?: InputMaybe<Scalars['String']['input']>;
  sha256?: InputMaybe<Scalars['String']['input']>;
  description?: InputMaybe<Scalars['String']['input']>;
  conversationId: Scalars['ID']['input'];
  spoiler?: InputMaybe<Scalars['Boolean']['input']>;
  idempotencyKey?: InputMaybe<Scalars['String']['input']>;
};

export type CreateWorkspaceInput = {
  name: Scalars['String']['input'];
  domain?: InputMaybe<Scalars['String']['input']>;
  iconUrl?: InputMaybe<Scalars['String']['input']>;
  isOpen?: InputMaybe<Scalars['Boolean']['input']>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
  idempotencyKey?: InputMaybe<Scalars['String']['input']>;
};

export type CustomStatus = {
  __typename: 'CustomStatus';
  text?: Maybe<Scalars['String']['output']>;
  emoji?: Maybe<Scalars['String']['output']>;
  expiresAt?: Maybe<Scalars['DateTime']['output']>;
};

export type Delivery = {
  __typename: 'Delivery';
  status: ReceiptStatus;
  recipientCount: Scalars['Int']['output'];
  deliveredCount: Scalars['Int']['output'];
  readCount: Scalars['Int']['output'];
};

export type DeliveryMark = {
  conversationId: Scalars['ID']['input'];
  upToSeq: Scalars['Int']['input'];
};

export type Device = Node & {
  __typename: 'Device';
  id: Scalars['ID']['output'];
  type: DeviceType;
  name?: Maybe<Scalars['String']['output']>;
  /** Now while it is connected. */
  lastSeenAt: Scalars['DateTime']['output'];
  /** The caller asks over a connection of it. */
  isCurrent: Scalars['Boolean']['output'];
  pushPlatform?: Maybe<PushPlatform>;
};

/**
 * null leaves a field as it is; id: null makes a new device. name: up to 100 characters; an empty one removes it. APNS and
 * FCM take pushToken, WEB_PUSH takes webPush; an empty pushToken alone switches pushes off.
 */
export type DeviceInput = {
  id?: InputMaybe<Scalars['ID']['input']>;
  type: DeviceType;
  name?: InputMaybe<Scalars['String']['input']>;
  pushPlatform?: InputMaybe<PushPlatform>;
  pushToken?: InputMaybe<Scalars['String']['input']>;
  webPush?: InputMaybe<WebPushInput>;
  locale?: InputMaybe<Scalars['String']['input']>;
};

export type DeviceType =
  | 'WEB'
  | 'DESKTOP'
  | 'MOBILE';

/**
 * At most 5 per message from links, 10 from bots. Links are previewed in groups, channels and their threads, not in
 * private conversations; only public addresses on ports 80 and 443 are fetched. Images are served by Confab: readers'
 * addresses are not revealed to the site.
 */
export type Embed = {
  __typename: 'Embed';
  type: EmbedType;
  url?: Maybe<Scalars['String']['output']>;
  title?: Maybe<Scalars['String']['output']>;
  description?: Maybe<Scalars['String']['output']>;
  siteName?: Maybe<Scalars['String']['output']>;
  authorName?: Maybe<Scalars['String']['output']>;
  color?: Maybe<Scalars['String']['output']>;
  publishedAt?: Maybe<Scalars['DateTime']['output']>;
  image?: Maybe<EmbedImage>;
  thumbnail?: Maybe<EmbedImage>;
  fields: Array<EmbedField>;
};

export type EmbedField = {
  __typename: 'EmbedField';
  name: Scalars['String']['output'];
  value: Scalars['String']['output'];
  inline: Scalars['Boolean']['output'];
};

export type EmbedFieldInput = {
  name: Scalars['String']['input'];
  value: Scalars['String']['input'];
  inline?: InputMaybe<Scalars['Boolean']['input']>;
};

export type EmbedImage = {
  __typename: 'EmbedImage';
  width?: Maybe<Scalars['Int']['output']>;
  height?: Maybe<Scalars['Int']['output']>;
  url: Scalars['String']['output'];
};

export type EmbedInput = {
  url?: InputMaybe<Scalars['String']['input']>;
  title?: InputMaybe<Scalars['String']['input']>;
  description?: InputMaybe<Scalars['String']['input']>;
  authorName?: InputMaybe<Scalars['String']['input']>;
  color?: InputMaybe<Scalars['String']['input']>;
  imageUrl?: InputMaybe<Scalars['String']['input']>;
  fields?: InputMaybe<Array<EmbedFieldInput>>;
};

export type EmbedType =
  | 'LINK'
  | 'IMAGE'
  | 'VIDEO'
  | 'RICH';

export type Erasure = {
  __typename: 'Erasure';
  userId: Scalars['ID']['output'];
  state: JobState;
  /** Steps that are left. */
  remaining: Scalars['Int']['output'];
  finishedAt?: Maybe<Scalars['DateTime']['output']>;
};

/** The closed list behind extensions.code. */
export type ErrorCode =
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'INVALID_INPUT'
  | 'RATE_LIMITED'
  | 'QUERY_TOO_COMPLEX'
  | 'IDEMPOTENCY_CONFLICT'
  | 'NOT_A_MEMBER'
  | 'RECALL_TIMEOUT'
  | 'GROUP_TOO_SMALL'
  | 'GROUP_FULL'
  | 'OWNER_CANNOT_LEAVE'
  | 'PRIVATE_CANNOT_DELETE'
  | 'SLOW_MODE'
  | 'BLOCKED'
  | 'BANNED'
  | 'ARCHIVED'
  | 'LIMIT_REACHED'
  | 'TOO_LARGE'
  | 'REJECTED'
  | 'UNAVAILABLE'
  | 'INTERNAL';

export type Export = {
  __typename: 'Export';
  id: Scalars['ID']['output'];
  state: JobState;
  expiresAt?: Maybe<Scalars['DateTime']['output']>;
  url?: Maybe<Scalars['String']['output']>;
};

export type Group = Conversation & Node & {
  __typename: 'Group';
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  session?: Maybe<Session>;
  name: Scalars['String']['output'];
  avatarUrl?: Maybe<Scalars['String']['output']>;
  metadata?: Maybe<Scalars['JSON']['output']>;
  memberCount: Scalars['Int']['output'];
  historyVisibility: HistoryVisibility;
  status: GroupStatus;
  createdAt: Scalars['DateTime']['output'];
  owner: User;
  /** Null to people who are no longer in it. query: by prefix of the display name. */
  members?: Maybe<GroupMemberConnection>;
  viewerRole?: Maybe<GroupRole>;
  /** The ranges of seq the caller may read, oldest first; toSeq is null while still a member. */
  visibleRanges: Array<SeqRange>;
};


export type GroupMembersArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
  query?: InputMaybe<Scalars['String']['input']>;
};

/** Name, picture, metadata, a role or historyVisibility changed. */
export type GroupChanged = {
  __typename: 'GroupChanged';
  group: Group;
  cursor: Scalars['Cursor']['output'];
};

export type GroupConnection = {
  __typename: 'GroupConnection';
  edges: Array<GroupEdge>;
  pageInfo: PageInfo;
};

export type GroupEdge = {
  __typename: 'GroupEdge';
  node: Group;
  cursor: Scalars['String']['output'];
};

export type GroupMember = {
  __typename: 'GroupMember';
  role: GroupRole;
  joinedAt: Scalars['DateTime']['output'];
  user: User;
};

export type GroupMemberConnection = {
  __typename: 'GroupMemberConnection';
  edges: Array<GroupMemberEdge>;
  pageInfo: PageInfo;
};

export type GroupMemberEdge = {
  __typename: 'GroupMemberEdge';
  node: GroupMember;
  cursor: Scalars['String']['output'];
};

export type GroupRole =
  | 'OWNER'
  | 'ADMIN'
  | 'MEMBER';

export type GroupStatus =
  | 'ACTIVE'
  | 'DISSOLVED';

export type Header = {
  __typename: 'Header';
  name: Scalars['String']['output'];
  value: Scalars['String']['output'];
};

/**
 * SINCE_JOIN: only messages from while the reader was a member. FULL: members also read what came before they joined and
 * between memberships; former members up to when they last left.
 */
export type HistoryVisibility =
  | 'SINCE_JOIN'
  | 'FULL';

export type Invite = {
  __typename: 'Invite';
  workspaceId: Scalars['ID']['output'];
  expiresAt?: Maybe<Scalars['DateTime']['output']>;
  uses: Scalars['Int']['output'];
  maxUses: Scalars['Int']['output'];
  code: Scalars['String']['output'];
  createdBy: User;
};

export type InvitePreview = {
  __typename: 'InvitePreview';
  workspaceId: Scalars['ID']['output'];
  name: Scalars['String']['output'];
  iconUrl?: Maybe<Scalars['String']['output']>;
  memberCount: Scalars['Int']['output'];
  expiresAt?: Maybe<Scalars['DateTime']['output']>;
};

export type JobState =
  | 'WAITING'
  | 'RUNNING'
  | 'DONE'
  | 'FAILED';

/**
 * A channel message that mentions the caller by name, or by a role of at most 200 members, followed or not. @everyone only
 * counts in Session.
 */
export type Mentioned = {
  __typename: 'Mentioned';
  message: Message;
  cursor: Scalars['Cursor']['output'];
};

export type Message = Node & {
  __typename: 'Message';
  id: Scalars['ID']['output'];
  conversationId: Scalars['ID']['output'];
  /** Position in the conversation, strictly increasing. Clients order by it and detect gaps with it. */
  seq: Scalars['Int']['output'];
  contentType: ContentType;
  /** Null once recalled. */
  content?: Maybe<Scalars['String']['output']>;
  /** Application data given by the sender. Null once recalled. */
  metadata?: Maybe<Scalars['JSON']['output']>;
  state: MessageState;
  mentionsAll: Scalars['Boolean']['output'];
  editCount: Scalars['Int']['output'];
  editedAt?: Maybe<Scalars['DateTime']['output']>;
  recalledAt?: Maybe<Scalars['DateTime']['output']>;
  createdAt: Scalars['DateTime']['output'];
  isPinned: Scalars['Boolean']['output'];
  sender: User;
  /** What to show as the author: the nickname in a workspace, the name a webhook gave, or the display name. */
  authorName: Scalars['String']['output'];
  authorAvatarUrl?: Maybe<Scalars['String']['output']>;
  /** Who recalled it: the sender or a moderator. */
  recalledBy?: Maybe<User>;
  /** What a SYSTEM message announces, for clients that phrase it themselves in the reader's language. */
  systemEvent?: Maybe<SystemEvent>;
  mentions: Array<User>;
  mentionedRoles: Array<Role>;
  replyTo?: Maybe<Message>;
  /** The sender's own key, visible to the sender only. */
  idempotencyKey?: Maybe<Scalars['String']['output']>;
  /**
   * What the sender's tick shows: READ only when all recipients have read, DELIVERED only when all have received; SENT
   * where there is no recipient. deliveredCount includes those who have read. Null to everyone but the sender, for SYSTEM
   * messages, and in channels.
   */
  delivery?: Maybe<Delivery>;
  /**
   * One row per recipient (members when it was sent, without the sender), in groups of any size. status filters for
   * exactly that one. Null to everyone but the sender, and in channels.
   */
  receipts?: Maybe<ReceiptConnection>;
  /** Null until somebody replies in a thread. */
  thread?: Maybe<Thread>;
  /** This message is the copy, in the conversation, of a thread reply that was sent with broadcast: the reply. */
  broadcastOf?: Maybe<Message>;
  /** In the order in which they were first used; at most 50 different emoji. */
  reactions: Array<Reaction>;
  attachments: Array<Attachment>;
  /** Made by the server after sending (MessageUpdated; editCount stays), or given by a bot. */
  embeds: Array<Embed>;
  /** The caller has blocked the sender: show it collapsed. */
  isFromBlocked: Scalars['Boolean']['output'];
};


export type MessageReceiptsArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
  status?: InputMaybe<ReceiptStatus>;
};

export type MessageChange =
  | 'CREATED'
  | 'UPDATED'
  | 'RECALLED';

export type MessageConnection = {
  __typename: 'MessageConnection';
  edges: Array<MessageEdge>;
  pageInfo: PageInfo;
};

export type MessageCreated = {
  __typename: 'MessageCreated';
  message: Message;
  cursor: Scalars['Cursor']['output'];
};

export type MessageEdge = {
  __typename: 'MessageEdge';
  node: Message;
  cursor: Scalars['String']['output'];
};

/**
 * cursor: resume after this event; a client that has applied it holds everything before it. CaughtUp marks the moment
 * between what was missed and what is live; reset: true means: start over from syncSessions.
 */
export type MessageEvent = MessageCreated | MessageUpdated | MessageRecalled | ReceiptAdvanced | GroupChanged | ThreadChanged | Mentioned | PinsChanged | ReactionsChanged | TypingStarted | TypingStopped | CaughtUp;

export type MessageRecalled = {
  __typename: 'MessageRecalled';
  message: Message;
  cursor: Scalars['Cursor']['output'];
};

export type MessageState =
  | 'NORMAL'
  | 'RECALLED';

export type MessageUpdated = {
  __typename: 'MessageUpdated';
  message: Message;
  cursor: Scalars['Cursor']['output'];
};

export type Mutation = {
  __typename: 'Mutation';
  /**
   * Role service or admin only. A user also comes into being with their first authenticated request; the token's name and
   * picture fill what is not set.
   */
  upsertUsers: Array<User>;
  /** The caller's own profile; null leaves a field as it is, avatarUrl: "" removes the picture. */
  updateMe: User;
  /**
   * Clears unreadCount, sets readSeq to writeSeq (or to upToSeq if that is lower; never backwards), clears the offline
   * queue up to there, and notifies the senders. upToSeq beyond writeSeq means writeSeq; below 0: INVALID_INPUT.
   */
  markRead: Session;
  /**
   * markRead for up to 200 conversations in one change with one SyncSession. Without ids: all that are unread, muted ones
   * included.
   */
  markManyRead: Array<Session>;
  /**
   * Everything up to upToSeq has arrived on one of the caller's devices. Monotonic and idempotent; beyond writeSeq means
   * writeSeq. While the caller is INVISIBLE, senders learn of it only with the next markRead or when the caller is visible
   * again.
   */
  ackDelivered: Session;
  /** ackDelivered for up to 200 conversations at once. */
  ackManyDelivered: Array<Session>;
  /**
   * Soft delete of the caller's own view: status INVALID, unread cleared without receipts; history stays. The next message
   * that is not SYSTEM revives it with its priority, mute and category. hard: true also forgets those. Other devices
   * receive the tombstone.
   */
  deleteSession: Session;
  /**
   * Muting removes the session's unreadCount from totalUnread; unmuting adds it back. until: the mute ends by itself at
   * that time (SyncSession UNMUTE). until in the past, or together with muted: false: INVALID_INPUT.
   */
  muteSession: Session;
  /**
   * priority 0 to 1000. Above 0 pins the session (higher is nearer the top) and moves writeTs and activeTs; 0 unpins and
   * moves activeTs.
   */
  pinSession: Session;
  /** A personal reminder: sets unreadStatus and moves writeTs and activeTs; readSeq and unreadCount stay. */
  setUnread: Session;
  /** categoryId: null removes the sessions from their category. */
  assignCategory: Array<Session>;
  /**
   * Of one conversation, channel, thread or workspace. level null: as the next larger one says. Conversations: SyncSession
   * NOTIFICATIONS.
   */
  setNotificationLevel: NotificationLevel;
  /**
   * Durable (majority, journaled) before it is answered. Sending marks the conversation as read: the sender's readSeq
   * becomes the message's seq and others receive receipts, without a SyncSession or ReceiptAdvanced to the sender.
   * idempotencyKey: 1 to 128 characters, kept for 24 hours per sender across all conversations. The same key with the same
   * input answers the original message with replayed: true and stores nothing; with any other input: IDEMPOTENCY_CONFLICT.
   */
  sendMessage: SendMessagePayload;
  /**
   * By its sender only (FORBIDDEN), while a member. A recalled or SYSTEM message: INVALID_INPUT. The same content again
   * changes nothing. Everyone who can see the message sees the edit.
   */
  editMessage: Message;
  /**
   * By its sender within 120 s (RECALL_TIMEOUT after that), or at any time by the group's owner or an admin, or in a
   * channel with MANAGE_MESSAGES. The record stays; its content is withheld from then on. A second recall answers the
   * message unchanged. A SYSTEM message: INVALID_INPUT.
   */
  recallMessage: Message;
  /** By the message's sender: removes the link previews for good; embeds given by a bot stay. */
  suppressEmbeds: Message;
  /**
   * Private: either person; groups: OWNER and ADMIN; channels: PIN_MESSAGES. At most 250 (LIMIT_REACHED). Announced by a
   * SYSTEM message.
   */
  pinMessage: Message;
  unpinMessage: Message;
  /**
   * emoji: one emoji of Unicode (fully qualified; other spellings are normalised), or :name: with 2 to 32 of [a-z0-9_+-].
   * Repeating changes nothing. More than 50 different ones on a message, or 20 by one user: LIMIT_REACHED. Adding one's
   * own to an emoji that is already there needs no ADD_REACTIONS.
   */
  addReaction: Message;
  removeReaction: Message;
  /** Groups: OWNER and ADMIN; channels: MANAGE_MESSAGES; private conversations: FORBIDDEN. Without emoji: all. */
  clearReactions: Message;
  /**
   * Reserves space for one file. The client sends the bytes to url with method and headers, unchanged, before expiresAt
   * (one hour), then calls completeUpload. filename: 1 to 255 characters without a path. sizeBytes: 1 to the limit (25 MiB
   * by default; TOO_LARGE). sha256: 64 lower-case hexadecimal digits. contentType is a hint. conversationId: where it will
   * be sent (a p_… that does not exist yet is allowed; for a thread, the thread or its parent's conversation); in any
   * other conversation it is INVALID_INPUT. A file that no message used within 24 h is deleted.
   */
  createUpload: Upload;
  /**
   * The bytes have been sent. Size and checksum are compared (INVALID_INPUT); the type is determined from the bytes, not
   * from the name. Repeating gives the same answer.
   */
  completeUpload: Attachment;
  cancelUpload: Scalars['Boolean']['output'];
  /**
   * The creator becomes OWNER. Creator and members together, each counted once: at least 3 (GROUP_TOO_SMALL); a group may
   * shrink below that later. At most 5,000 members, configurable (GROUP_FULL). Everyone's session is ACTIVE at once.
   */
  createGroup: Group;
  /** OWNER and ADMIN. Sends GroupChanged. */
  updateGroup: Group;
  /**
   * Any member may invite. Existing members are skipped. Whoever joins, or joins again, gets an ACTIVE session in which
   * everything so far counts as read and delivered, without receipts: readable as historyVisibility says, never unread.
   */
  inviteMembers: Group;
  /** OWNER and ADMIN. The OWNER cannot be removed; an ADMIN cannot remove an ADMIN. */
  removeMember: Group;
  /**
   * Anyone but the OWNER (OWNER_CANNOT_LEAVE). The session stays, frozen at the last message the member could see;
   * likewise for a person who is removed.
   */
  leaveGroup: Scalars['Boolean']['output'];
  /** OWNER only. The new owner must be a member; the old one becomes MEMBER. */
  transferOwner: Group;
  /** OWNER only; ADMIN or MEMBER. Sends GroupChanged. */
  setMemberRole: Group;
  /**
   * OWNER only. Deletes the group record: group(id) and messages are null for everyone afterwards, the session of every
   * member and former member becomes INVALID (SyncSession DELETE), and the id is never used again.
   */
  dismissGroup: Scalars['Boolean']['output'];
  /**
   * A private conversation: PRIVATE_CANNOT_DELETE. A group, by its OWNER: status DISSOLVED, members released, sessions
   * INVALID, messages kept and readable to those who were in it.
   */
  deleteConversation: Scalars['Boolean']['output'];
  /**
   * A followed thread is a session in subBiz "@threads": unread counts, messageEvents and syncSessions include it from now
   * on. Whoever starts a thread, replies in it or is mentioned in it follows it automatically, unless they have unfollowed
   * it; then a mention only counts. At most 1,000 followers (LIMIT_REACHED; nobody follows automatically beyond that).
   */
  followThread: Thread;
  /** MANAGE_THREADS (groups: OWNER and ADMIN), or the parent's sender. In a locked thread only they write (FORBIDDEN). */
  lockThread: Thread;
  /**
   * The creator is the owner. domain: unique in the deployment, [a-z0-9-]{3,32}. At most 100 workspaces per user,
   * configurable (LIMIT_REACHED).
   */
  createWorkspace: Workspace;
  /** MANAGE_WORKSPACE. plan: role service only. */
  updateWorkspace: Workspace;
  /** Owner only. Its channels are NOT_FOUND at once; stored messages and files are removed in the background. */
  deleteWorkspace: Scalars['Boolean']['output'];
  transferWorkspace: Workspace;
  /**
   * With an invitation code, or without one if the workspace is open. A banned user: BANNED. Whoever joins follows the
   * default channels, read up to now.
   */
  joinWorkspace: Workspace;
  /** Anyone but the owner (OWNER_CANNOT_LEAVE). */
  leaveWorkspace: Scalars['Boolean']['output'];
  /** CHANGE_NICKNAME for oneself, MANAGE_NICKNAMES for members below. 1 to 32 characters; null removes it. */
  setNickname: WorkspaceMember;
  /** Role service or admin: adds users without an invitation, 1,000 at most; members are skipped. */
  addToWorkspace: Workspace;
  /** CREATE_INVITES. maxUses 0: unlimited. At most 1,000 codes per workspace. */
  createInvite: Invite;
  revokeInvite: Scalars['Boolean']['output'];
  /**
   * MANAGE_CHANNELS. At most 1,000 channels and 50 categories per workspace (LIMIT_REACHED). The same idempotencyKey
   * within 24 h answers the first one.
   */
  createChannel: Channel;
  /**
   * MANAGE_CHANNELS in that channel. A new name or topic is announced by a SYSTEM message. position: the others shift; one
   * event for all of them.
   */
  updateChannel: Channel;
  /** Nobody can write, react, pin or newly follow (ARCHIVED); everything readable stays readable and searchable. */
  archiveChannel: Channel;
  deleteChannel: Scalars['Boolean']['output'];
  createCategory: ChannelCategory;
  updateCategory: ChannelCategory;
  /** Its channels stay, without a category. */
  deleteCategory: Scalars['Boolean']['output'];
  /**
   * Following puts a channel into followedChannels, and its activity into workspaceEvents, from now on (everything so far
   * is read). A PUBLIC channel can be read, written to and watched with channelEvents without following it. Unfollowing
   * keeps the read position. In a PRIVATE channel, unfollowing leaves it.
   */
  followChannel: Channel;
  /** Marks every followed channel of the workspace (or category) as read: one change, one event. */
  markChannelsRead: Attention;
  /**
   * A PRIVATE channel: INVITE_MEMBERS; adds them and lets them follow it. A PUBLIC channel: lets members of the workspace
   * follow it. At most 1,000 users.
   */
  addToChannel: Channel;
  /** PRIVATE only. Ends their membership interval; live events to them end before this is answered. */
  removeFromChannel: Channel;
  /** MANAGE_ROLES, only below the caller's own highest role, granting only what the caller has. At most 250 per workspace. */
  createRole: Role;
  updateRole: Role;
  deleteRole: Scalars['Boolean']['output'];
  /** MANAGE_ROLES: roles below the caller's highest, of members below it. At most 100 per member. */
  setMemberRoles: WorkspaceMember;
  /**
   * For a role or a user, on a channel or category. MANAGE_ROLES there; only permissions the caller has there. Neither
   * allow nor deny: removes it. At most 200.
   */
  setPermissionOverwrite: Array<PermissionOverwrite>;
  /**
   * Tells the conversation's other connected members that the caller is typing, at most once in 3 s per user and
   * conversation. True if it was sent; false if nobody else is visibly connected (INVISIBLE counts as absent). Clients
   * hide the indicator after 8 s, after TypingStopped, or with the next message.
   */
  startTyping: Scalars['Boolean']['output'];
  stopTyping: Scalars['Boolean']['output'];
  /**
   * Kept until it is set again; with until: ONLINE again by itself at that time (in the past: INVALID_INPUT). ONLINE:
   * derived from the devices. To everyone else INVISIBLE cannot be told from OFFLINE, in content or in timing: becoming
   * INVISIBLE is announced as late as a departure is.
   */
  setPresence: OwnPresence;
  /**
   * text: up to 128 characters; emoji as in addReaction; both null: removed. It ends by itself at expiresAt (in the past:
   * INVALID_INPUT).
   */
  setCustomStatus: OwnPresence;
  /**
   * On a WebSocket: whether this device has been used just now, or not for 5 minutes. Counts at most once in 15 s, a
   * change always. Over HTTP: INVALID_INPUT. The device is named by the connection_init payload: deviceId (chosen by the
   * client, 1 to 64 printable characters) and deviceType (WEB, DESKTOP, MOBILE).
   */
  reportActivity: OwnPresence;
  /**
   * On a WebSocket: replaces the connection's token before it expires (same user, else FORBIDDEN); subscriptions continue.
   * Answers the new expiry. Over HTTP: INVALID_INPUT.
   */
  renewAuth: Scalars['DateTime']['output'];
  /**
   * id: the client's deviceId. One record per device. The same push token from another user moves it there (the old record
   * stays, without push). At most 20 per user: the one seen longest ago is dropped.
   */
  registerDevice: Device;
  /** Closes the device's connections with 4401. Its token stays valid. */
  removeDevice: Scalars['Boolean']['output'];
  /** null leaves a setting as it is. */
  setNotificationSettings: NotificationSettings;
  /**
   * CONNECT; a VOICE channel (INVALID_INPUT). One voice channel per user and workspace: joining another leaves the first.
   * On a WebSocket only (INVALID_INPUT), as are updateVoice and leaveVoice: the state belongs to the connection's device
   * (none: NOT_FOUND). token: for the media server (LiveKit), valid for joining for 10 minutes.
   */
  joinVoice: VoiceJoin;
  updateVoice: VoiceState;
  leaveVoice: Scalars['Boolean']['output'];
  /** MUTE_OTHERS, DEAFEN_OTHERS, MOVE_OTHERS. */
  moderateVoice?: Maybe<VoiceState>;
  /** Sends a push to this device now and says what became of it. */
  testPush: PushResult;
  /** url takes POST {content, threadOf, username, avatarUrl, embeds, metadata, idempotencyKey}. At most 15 per channel. */
  createIncomingWebhook: Webhook;
  /**
   * Events to a public https address (INVALID_INPUT else; CONFAB_ALLOW_LOOPBACK lets development use loopback and http),
   * as {type, timestamp, data}, signed as Standard Webhooks specifies (webhook-id, webhook-timestamp, webhook-signature
   * v1). Delivered at least once, in order per conversation; webhook-id is the event's, so repetitions can be recognised.
   * With workspaceId: MANAGE_WEBHOOKS, and its channels only (or channelIds). Without: role admin, everything in the
   * deployment.
   */
  createOutgoingWebhook: Webhook;
  /** The old secret signs as well for 24 h. */
  rotateWebhookSecret: Webhook;
  deleteWebhook: Scalars['Boolean']['output'];
  /** One delivery, or all failed ones since then, oldest first. Answers how many. */
  redeliverWebhook: Scalars['Int']['output'];
  /** KICK_MEMBERS, only members below the caller. They may join again. */
  kickMember: Scalars['Boolean']['output'];
  /**
   * deleteSeconds: recalls what they wrote in the last 0 to 604800 s. until null: for good. Without a workspace: role
   * admin, from the whole deployment; tokens are revoked at once.
   */
  banUser: Ban;
  /** False: there was no ban. */
  unbanUser: Scalars['Boolean']['output'];
  /** TIMEOUT_MEMBERS. At most 28 days; null ends it. */
  timeoutMember: WorkspaceMember;
  /** MANAGE_MESSAGES (groups: OWNER and ADMIN): recalls up to 100 messages of one conversation. */
  recallMessages: Array<Message>;
  /**
   * Exactly one of a message (its text is kept with the report, whatever becomes of it), a user, or a file. Repeating by
   * the same reporter answers the first report.
   */
  report: Report;
  /** VIEW_REPORTS, and the permission that the action needs. */
  resolveReport: Report;
  /**
   * MANAGE_WORKSPACE. Words as whole words, or with * at one end, at most 1,000 in all; patterns in RE2 syntax, at most 10
   * in all. Case is ignored; edits are checked too. A FLAG report is made in the name of the owner.
   */
  setContentRules: Array<ContentRule>;
  /**
   * A file with everything the caller wrote, uploaded and set, as JSON lines; ready within a day, kept for seven. One at a
   * time.
   */
  exportMyData: Export;
  /** Role service or admin. Messages stay without a name and files are removed; messages: true removes them too. */
  eraseUser: Erasure;
  /**
   * A blocked user cannot write to the caller privately (BLOCKED), add them to a group, or see their presence (OFFLINE).
   * In groups and channels their messages are isFromBlocked and cause neither push nor Mentioned, and their typing is not
   * shown; they still count as unread, since counts are positions. Whoever adds somebody who blocked them to a group gets
   * no error: that person is skipped. Nobody is told. At most 1,000.
   */
  blockUser: User;
  unblockUser: User;
};


export type MutationUpsertUsersArgs = {
  input: Array<UserInput>;
};


export type MutationUpdateMeArgs = {
  displayName?: InputMaybe<Scalars['String']['input']>;
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
};


export type MutationMarkReadArgs = {
  conversationId: Scalars['ID']['input'];
  upToSeq?: InputMaybe<Scalars['Int']['input']>;
};


export type MutationMarkManyReadArgs = {
  conversationIds?: InputMaybe<Array<Scalars['ID']['input']>>;
};


export type MutationAckDeliveredArgs = {
  conversationId: Scalars['ID']['input'];
  upToSeq: Scalars['Int']['input'];
};


export type MutationAckManyDeliveredArgs = {
  marks: Array<DeliveryMark>;
};


export type MutationDeleteSessionArgs = {
  conversationId: Scalars['ID']['input'];
  hard?: InputMaybe<Scalars['Boolean']['input']>;
};


export type MutationMuteSessionArgs = {
  conversationId: Scalars['ID']['input'];
  muted: Scalars['Boolean']['input'];
  until?: InputMaybe<Scalars['DateTime']['input']>;
};


export type MutationPinSessionArgs = {
  conversationId: Scalars['ID']['input'];
  priority?: InputMaybe<Scalars['Int']['input']>;
};


export type MutationSetUnreadArgs = {
  conversationId: Scalars['ID']['input'];
};


export type MutationAssignCategoryArgs = {
  conversationIds: Array<Scalars['ID']['input']>;
  categoryId?: InputMaybe<Scalars['ID']['input']>;
};


export type MutationSetNotificationLevelArgs = {
  id: Scalars['ID']['input'];
  level?: InputMaybe<NotificationLevel>;
  suppressEveryone?: InputMaybe<Scalars['Boolean']['input']>;
};


export type MutationSendMessageArgs = {
  input: SendMessageInput;
};


export type MutationEditMessageArgs = {
  messageId: Scalars['ID']['input'];
  content: Scalars['String']['input'];
};


export type MutationRecallMessageArgs = {
  messageId: Scalars['ID']['input'];
};


export type MutationSuppressEmbedsArgs = {
  messageId: Scalars['ID']['input'];
};


export type MutationPinMessageArgs = {
  messageId: Scalars['ID']['input'];
};


export type MutationUnpinMessageArgs = {
  messageId: Scalars['ID']['input'];
};


export type MutationAddReactionArgs = {
  messageId: Scalars['ID']['input'];
  emoji: Scalars['String']['input'];
};


export type MutationRemoveReactionArgs = {
  messageId: Scalars['ID']['input'];
  emoji: Scalars['String']['input'];
};


export type MutationClearReactionsArgs = {
  messageId: Scalars['ID']['input'];
  emoji?: InputMaybe<Scalars['String']['input']>;
};


export type MutationCreateUploadArgs = {
  input: CreateUploadInput;
};


export type MutationCompleteUploadArgs = {
  uploadId: Scalars['ID']['input'];
};


export type MutationCancelUploadArgs = {
  uploadId: Scalars['ID']['input'];
};


export type MutationCreateGroupArgs = {
  input: CreateGroupInput;
};


export type MutationUpdateGroupArgs = {
  groupId: Scalars['ID']['input'];
  input: UpdateGroupInput;
};


export type MutationInviteMembersArgs = {
  groupId: Scalars['ID']['input'];
  userIds: Array<Scalars['ID']['input']>;
};


export type MutationRemoveMemberArgs = {
  groupId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
};


export type MutationLeaveGroupArgs = {
  groupId: Scalars['ID']['input'];
};


export type MutationTransferOwnerArgs = {
  groupId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
};


export type MutationSetMemberRoleArgs = {
  groupId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
  role: GroupRole;
};


export type MutationDismissGroupArgs = {
  groupId: Scalars['ID']['input'];
};


export type MutationDeleteConversationArgs = {
  conversationId: Scalars['ID']['input'];
};


export type MutationFollowThreadArgs = {
  threadId: Scalars['ID']['input'];
  follow?: Scalars['Boolean']['input'];
};


export type MutationLockThreadArgs = {
  threadId: Scalars['ID']['input'];
  locked?: Scalars['Boolean']['input'];
};


export type MutationCreateWorkspaceArgs = {
  input: CreateWorkspaceInput;
};


export type MutationUpdateWorkspaceArgs = {
  workspaceId: Scalars['ID']['input'];
  input: UpdateWorkspaceInput;
};


export type MutationDeleteWorkspaceArgs = {
  workspaceId: Scalars['ID']['input'];
};


export type MutationTransferWorkspaceArgs = {
  workspaceId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
};


export type MutationJoinWorkspaceArgs = {
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  code?: InputMaybe<Scalars['String']['input']>;
};


export type MutationLeaveWorkspaceArgs = {
  workspaceId: Scalars['ID']['input'];
};


export type MutationSetNicknameArgs = {
  workspaceId: Scalars['ID']['input'];
  userId?: InputMaybe<Scalars['ID']['input']>;
  nickname?: InputMaybe<Scalars['String']['input']>;
};


export type MutationAddToWorkspaceArgs = {
  workspaceId: Scalars['ID']['input'];
  userIds: Array<Scalars['ID']['input']>;
};


export type MutationCreateInviteArgs = {
  workspaceId: Scalars['ID']['input'];
  expiresAt?: InputMaybe<Scalars['DateTime']['input']>;
  maxUses?: InputMaybe<Scalars['Int']['input']>;
};


export type MutationRevokeInviteArgs = {
  code: Scalars['String']['input'];
};


export type MutationCreateChannelArgs = {
  input: CreateChannelInput;
};


export type MutationUpdateChannelArgs = {
  channelId: Scalars['ID']['input'];
  input: UpdateChannelInput;
};


export type MutationArchiveChannelArgs = {
  channelId: Scalars['ID']['input'];
  archived?: Scalars['Boolean']['input'];
};


export type MutationDeleteChannelArgs = {
  channelId: Scalars['ID']['input'];
};


export type MutationCreateCategoryArgs = {
  workspaceId: Scalars['ID']['input'];
  name: Scalars['String']['input'];
  position?: InputMaybe<Scalars['Int']['input']>;
};


export type MutationUpdateCategoryArgs = {
  categoryId: Scalars['ID']['input'];
  name?: InputMaybe<Scalars['String']['input']>;
  position?: InputMaybe<Scalars['Int']['input']>;
};


export type MutationDeleteCategoryArgs = {
  categoryId: Scalars['ID']['input'];
};


export type MutationFollowChannelArgs = {
  channelId: Scalars['ID']['input'];
  follow?: Scalars['Boolean']['input'];
};


export type MutationMarkChannelsReadArgs = {
  workspaceId: Scalars['ID']['input'];
  categoryId?: InputMaybe<Scalars['ID']['input']>;
};


export type MutationAddToChannelArgs = {
  channelId: Scalars['ID']['input'];
  userIds: Array<Scalars['ID']['input']>;
};


export type MutationRemoveFromChannelArgs = {
  channelId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
};


export type MutationCreateRoleArgs = {
  workspaceId: Scalars['ID']['input'];
  input: RoleInput;
};


export type MutationUpdateRoleArgs = {
  roleId: Scalars['ID']['input'];
  input: RoleInput;
};


export type MutationDeleteRoleArgs = {
  roleId: Scalars['ID']['input'];
};


export type MutationSetMemberRolesArgs = {
  workspaceId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
  roleIds: Array<Scalars['ID']['input']>;
};


export type MutationSetPermissionOverwriteArgs = {
  channelId?: InputMaybe<Scalars['ID']['input']>;
  categoryId?: InputMaybe<Scalars['ID']['input']>;
  roleId?: InputMaybe<Scalars['ID']['input']>;
  userId?: InputMaybe<Scalars['ID']['input']>;
  allow?: Array<Permission>;
  deny?: Array<Permission>;
};


export type MutationStartTypingArgs = {
  conversationId: Scalars['ID']['input'];
};


export type MutationStopTypingArgs = {
  conversationId: Scalars['ID']['input'];
};


export type MutationSetPresenceArgs = {
  status: PresenceSetting;
  until?: InputMaybe<Scalars['DateTime']['input']>;
};


export type MutationSetCustomStatusArgs = {
  text?: InputMaybe<Scalars['String']['input']>;
  emoji?: InputMaybe<Scalars['String']['input']>;
  expiresAt?: InputMaybe<Scalars['DateTime']['input']>;
};


export type MutationReportActivityArgs = {
  active: Scalars['Boolean']['input'];
  activities?: InputMaybe<Array<ActivityInput>>;
};


export type MutationRenewAuthArgs = {
  token: Scalars['String']['input'];
};


export type MutationRegisterDeviceArgs = {
  input: DeviceInput;
};


export type MutationRemoveDeviceArgs = {
  deviceId: Scalars['ID']['input'];
};


export type MutationSetNotificationSettingsArgs = {
  input: NotificationSettingsInput;
};


export type MutationJoinVoiceArgs = {
  channelId: Scalars['ID']['input'];
  selfMute?: InputMaybe<Scalars['Boolean']['input']>;
  selfDeaf?: InputMaybe<Scalars['Boolean']['input']>;
};


export type MutationUpdateVoiceArgs = {
  selfMute?: InputMaybe<Scalars['Boolean']['input']>;
  selfDeaf?: InputMaybe<Scalars['Boolean']['input']>;
  video?: InputMaybe<Scalars['Boolean']['input']>;
  screen?: InputMaybe<Scalars['Boolean']['input']>;
};


export type MutationModerateVoiceArgs = {
  channelId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
  mute?: InputMaybe<Scalars['Boolean']['input']>;
  deaf?: InputMaybe<Scalars['Boolean']['input']>;
  disconnect?: InputMaybe<Scalars['Boolean']['input']>;
  moveToChannelId?: InputMaybe<Scalars['ID']['input']>;
};


export type MutationTestPushArgs = {
  deviceId: Scalars['ID']['input'];
};


export type MutationCreateIncomingWebhookArgs = {
  channelId: Scalars['ID']['input'];
  name: Scalars['String']['input'];
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
};


export type MutationCreateOutgoingWebhookArgs = {
  url: Scalars['String']['input'];
  events: Array<WebhookEventType>;
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  channelIds?: InputMaybe<Array<Scalars['ID']['input']>>;
};


export type MutationRotateWebhookSecretArgs = {
  webhookId: Scalars['ID']['input'];
};


export type MutationDeleteWebhookArgs = {
  webhookId: Scalars['ID']['input'];
};


export type MutationRedeliverWebhookArgs = {
  webhookId: Scalars['ID']['input'];
  deliveryId?: InputMaybe<Scalars['ID']['input']>;
  since?: InputMaybe<Scalars['DateTime']['input']>;
};


export type MutationKickMemberArgs = {
  workspaceId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
  reason?: InputMaybe<Scalars['String']['input']>;
};


export type MutationBanUserArgs = {
  userId: Scalars['ID']['input'];
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  until?: InputMaybe<Scalars['DateTime']['input']>;
  deleteSeconds?: InputMaybe<Scalars['Int']['input']>;
  reason?: InputMaybe<Scalars['String']['input']>;
};


export type MutationUnbanUserArgs = {
  userId: Scalars['ID']['input'];
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
};


export type MutationTimeoutMemberArgs = {
  workspaceId: Scalars['ID']['input'];
  userId: Scalars['ID']['input'];
  until?: InputMaybe<Scalars['DateTime']['input']>;
  reason?: InputMaybe<Scalars['String']['input']>;
};


export type MutationRecallMessagesArgs = {
  conversationId: Scalars['ID']['input'];
  messageIds: Array<Scalars['ID']['input']>;
  reason?: InputMaybe<Scalars['String']['input']>;
};


export type MutationReportArgs = {
  reason: ReportReason;
  messageId?: InputMaybe<Scalars['ID']['input']>;
  userId?: InputMaybe<Scalars['ID']['input']>;
  attachmentId?: InputMaybe<Scalars['ID']['input']>;
  note?: InputMaybe<Scalars['String']['input']>;
};


export type MutationResolveReportArgs = {
  reportId: Scalars['ID']['input'];
  action: ReportAction;
  note?: InputMaybe<Scalars['String']['input']>;
};


export type MutationSetContentRulesArgs = {
  workspaceId: Scalars['ID']['input'];
  rules: Array<ContentRuleInput>;
};


export type MutationEraseUserArgs = {
  userId: Scalars['ID']['input'];
  messages?: InputMaybe<Scalars['Boolean']['input']>;
};


export type MutationBlockUserArgs = {
  userId: Scalars['ID']['input'];
};


export type MutationUnblockUserArgs = {
  userId: Scalars['ID']['input'];
};

export type Node = {
  id: Scalars['ID']['output'];
};

export type NotificationLevel =
  | 'ALL'
  | 'MENTIONS'
  | 'NONE';

/**
 * A push is not sent for what is already read, muted, silent, from a blocked sender, or shown on a device in use
 * (delaySeconds: how long to wait for that). What is true when it is sent counts, not when the message came. One
 * notification per conversation: the next replaces it, and reading removes it. Payload: {title, body, conversationId,
 * badge, tag}; tag identifies the conversation; badge is attention.unread + attention.mentions. keywords notify like a
 * mention. doNotDisturb: from and to as HH:MM in timeZone (IANA); "" switches it off.
 */
export type NotificationSettings = {
  __typename: 'NotificationSettings';
  level: NotificationLevel;
  timeZone: Scalars['String']['output'];
  delaySeconds: Scalars['Int']['output'];
  showPreview: Scalars['Boolean']['output'];
  keywords: Array<Scalars['String']['output']>;
  doNotDisturbFrom?: Maybe<Scalars['String']['output']>;
  doNotDisturbTo?: Maybe<Scalars['String']['output']>;
};

export type NotificationSettingsInput = {
  /** Of conversations and workspaces without a level of their own. ALL at first. */
  level?: InputMaybe<NotificationLevel>;
  /**
   * Together with doNotDisturbTo, from which it must differ. An earlier doNotDisturbTo is that of the next day. ""
   * switches both off.
   */
  doNotDisturbFrom?: InputMaybe<Scalars['String']['input']>;
  doNotDisturbTo?: InputMaybe<Scalars['String']['input']>;
  timeZone?: InputMaybe<Scalars['String']['input']>;
  /** 0 to 3600; 10 at first. */
  delaySeconds?: InputMaybe<Scalars['Int']['input']>;
  showPreview?: InputMaybe<Scalars['Boolean']['input']>;
  /** At most 100 of 1 to 64 characters. Case and diacritics are ignored: of those that are the same, the first stays. */
  keywords?: InputMaybe<Array<Scalars['String']['input']>>;
};

/** The caller's own roles, nickname, time-out, or the end of their membership (member: null). */
export type OwnMembershipChanged = {
  __typename: 'OwnMembershipChanged';
  workspaceId: Scalars['ID']['output'];
  member?: Maybe<WorkspaceMember>;
  rev: Scalars['Timestamp']['output'];
};

export type OwnPresence = {
  __typename: 'OwnPresence';
  setting: PresenceSetting;
  until?: Maybe<Scalars['DateTime']['output']>;
  shown: PresenceStatus;
  customStatus?: Maybe<CustomStatus>;
  devices: Array<Device>;
};

export type PageInfo = {
  __typename: 'PageInfo';
  hasNextPage: Scalars['Boolean']['output'];
  hasPreviousPage: Scalars['Boolean']['output'];
  startCursor?: Maybe<Scalars['String']['output']>;
  endCursor?: Maybe<Scalars['String']['output']>;
};

/**
 * Computed in this order: the role of everyone and all roles of the member together; ADMINISTRATOR and the owner have
 * everything; then the channel's overwrites: deny and allow for everyone, then the denies and then the allows of the
 * member's roles together, then deny and allow of the member. Without VIEW_CHANNEL there is nothing else; without
 * SEND_MESSAGES none of SEND_THREADS to MENTION_EVERYONE. A channel without overwrites of its own uses its category's. A
 * role's position (higher ranks higher) decides who may change whom, not what is allowed. New permissions are appended.
 * The role of everyone starts with VIEW_CHANNEL, READ_HISTORY, SEND_MESSAGES, SEND_THREADS, CREATE_THREADS, ATTACH_FILES,
 * EMBED_LINKS, ADD_REACTIONS, CREATE_INVITES, CHANGE_NICKNAME, CONNECT, SPEAK and VIDEO.
 */
export type Permission =
  | 'ADMINISTRATOR'
  | 'VIEW_CHANNEL'
  | 'READ_HISTORY'
  | 'SEND_MESSAGES'
  | 'SEND_THREADS'
  | 'CREATE_THREADS'
  | 'ATTACH_FILES'
  | 'EMBED_LINKS'
  | 'MENTION_EVERYONE'
  | 'ADD_REACTIONS'
  | 'PIN_MESSAGES'
  | 'MANAGE_MESSAGES'
  | 'MANAGE_THREADS'
  | 'BYPASS_SLOW_MODE'
  | 'CREATE_INVITES'
  | 'INVITE_MEMBERS'
  | 'CHANGE_NICKNAME'
  | 'MANAGE_NICKNAMES'
  | 'MANAGE_CHANNELS'
  | 'MANAGE_ROLES'
  | 'MANAGE_WORKSPACE'
  | 'MANAGE_WEBHOOKS'
  | 'KICK_MEMBERS'
  | 'BAN_MEMBERS'
  | 'TIMEOUT_MEMBERS'
  | 'VIEW_AUDIT_LOG'
  | 'VIEW_REPORTS'
  | 'CONNECT'
  | 'SPEAK'
  | 'VIDEO'
  | 'MUTE_OTHERS'
  | 'DEAFEN_OTHERS'
  | 'MOVE_OTHERS';

export type PermissionOverwrite = {
  __typename: 'PermissionOverwrite';
  roleId?: Maybe<Scalars['ID']['output']>;
  userId?: Maybe<Scalars['ID']['output']>;
  allow: Array<Permission>;
  deny: Array<Permission>;
};

export type PermissionReason = {
  __typename: 'PermissionReason';
  permission: Permission;
  allowed: Scalars['Boolean']['output'];
  decidedBy: PermissionRule;
  roleId?: Maybe<Scalars['ID']['output']>;
};

export type PermissionRule =
  | 'OWNER'
  | 'ADMINISTRATOR'
  | 'ROLE'
  | 'EVERYONE_OVERWRITE'
  | 'ROLE_OVERWRITE'
  | 'MEMBER_OVERWRITE'
  | 'TIMED_OUT'
  | 'NOT_VISIBLE'
  | 'ARCHIVED'
  | 'IMPLIED'
  | 'DEFAULT';

export type PinsChanged = {
  __typename: 'PinsChanged';
  conversationId: Scalars['ID']['output'];
  pinCount: Scalars['Int']['output'];
  message: Message;
  cursor: Scalars['Cursor']['output'];
};

/** rev null: from now on. */
export type Position = {
  id: Scalars['ID']['input'];
  rev?: InputMaybe<Scalars['Timestamp']['input']>;
};

/**
 * Over all devices: OFFLINE if none was heard from for 30 s (announced 15 s later, so that a reconnect is not announced),
 * else DND if that is set, else IDLE if that is set or no device was used for 5 minutes, else ONLINE. isMobile: only
 * mobile devices are connected. lastActiveAt: to the minute; of an INVISIBLE user the moment of becoming so.
 */
export type Presence = {
  __typename: 'Presence';
  status: PresenceStatus;
  isMobile: Scalars['Boolean']['output'];
  lastActiveAt?: Maybe<Scalars['DateTime']['output']>;
  at: Scalars['Timestamp']['output'];
  user: User;
  customStatus?: Maybe<CustomStatus>;
  activities: Array<Activity>;
};

export type PresenceSetting =
  | 'ONLINE'
  | 'IDLE'
  | 'DND'
  | 'INVISIBLE';

export type PresenceStatus =
  | 'ONLINE'
  | 'IDLE'
  | 'DND'
  | 'OFFLINE';

export type PrivateConversation = Conversation & Node & {
  __typename: 'PrivateConversation';
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  session?: Maybe<Session>;
  peer: User;
};

/**
 * ACCEPTED: the service has it, which does not mean that the device gets it. GONE: the address is not valid any more, and
 * was removed from the device: register it again. REFUSED: the service refused this push, or the credentials. UNREACHABLE:
 * no answer, or overloaded; try again later. NOT_CONFIGURED: the deployment has no credentials for the service, or the
 * device has no push address.
 */
export type PushOutcome =
  | 'ACCEPTED'
  | 'GONE'
  | 'REFUSED'
  | 'UNREACHABLE'
  | 'NOT_CONFIGURED';

export type PushPlatform =
  | 'APNS'
  | 'FCM'
  | 'WEB_PUSH';

export type PushResult = {
  __typename: 'PushResult';
  outcome: PushOutcome;
  /** For developers, in English. Null if it was accepted. */
  reason?: Maybe<Scalars['String']['output']>;
};

export type Query = {
  __typename: 'Query';
  me: User;
  user?: Maybe<User>;
  /** Users by id, in the order asked for; null for unknown ones. At most 200. */
  users: Array<Maybe<User>>;
  /**
   * People the caller may start a conversation with, by prefix of display name, nickname or id; case and diacritics are
   * ignored. Without directory access (a setting): only people who share a conversation or workspace with the caller.
   */
  searchUsers: UserConnection;
  /**
   * VIEW_AUDIT_LOG; without a workspace: role admin. Newest first. action: the mutation's name; targetId: the person
   * concerned, else the object; actor: the caller.
   */
  auditLog: AuditConnection;
  attention: Attention;
  /**
   * The session list in display order: pinned first by priority, then by writeTs, newest first. Sessions inside a subBiz
   * are not in the main list (subBiz: null); one gateway session represents them. INVALID sessions are left out.
   * categoryId alone lists everything filed under that category, including sessions inside a subBiz.
   */
  sessions: SessionConnection;
  /** Also returns an INVALID session, with that status. For a channel: the caller's read state there. */
  session?: Maybe<Session>;
  /**
   * Incremental synchronisation: every session whose activeTs moved past the cursor, oldest change first, including
   * sessions that became read, muted or INVALID. Without a cursor: all valid sessions. Page until hasMore is false. The
   * cost depends on how much changed, not on how many sessions the user has.
   */
  syncSessions: SessionDelta;
  /** Sum of unreadCount over the caller's valid sessions that are not muted. */
  totalUnread: Scalars['Int']['output'];
  /** One aggregate for each categoryId in use by the caller. Muted sessions do not count towards its unreadCount. */
  sessionCategories: Array<SessionCategory>;
  /**
   * History in order of seq: the newest message is last on every page; last/before pages backwards. With neither first nor
   * last: the last 50. Only messages inside the caller's membership intervals, however often they joined and left.
   * aroundSeq: a page of `first` messages (50) with the one at, or nearest to, that seq in its middle. fromSeq: starts
   * there, with first. Each excludes the other, after and before. An unknown conversation, or one the caller was never in:
   * null.
   */
  messages?: Maybe<MessageConnection>;
  message?: Maybe<Message>;
  /**
   * Messages that reached the caller's conversations and have not been acknowledged as delivered on any of the caller's
   * devices (the offline queue), newest first. markRead and ackDelivered shrink it.
   */
  offlineMessages: MessageConnection;
  /** Latest pin first. */
  pinnedMessages: MessageConnection;
  /** Who reacted with this emoji, the first ones first. */
  reactors: UserConnection;
  attachment?: Maybe<Attachment>;
  conversation?: Maybe<Conversation>;
  group?: Maybe<Group>;
  myGroups: GroupConnection;
  thread?: Maybe<Thread>;
  /** Threads of one conversation, latest reply first. */
  threads: ThreadConnection;
  workspace?: Maybe<Workspace>;
  myWorkspaces: WorkspaceConnection;
  /** Workspaces anyone may join without an invitation, by member count. */
  openWorkspaces: WorkspaceConnection;
  /** What an invitation leads to, before joining. */
  invite?: Maybe<InvitePreview>;
  channel?: Maybe<Channel>;
  /**
   * Channels the caller follows, by category and position. unreadOnly: those with unread messages. At most 500 followed
   * per workspace.
   */
  followedChannels: ChannelConnection;
  /**
   * Followed channels in which something happened, or whose session changed, after the cursor. The same cursors as
   * syncSessions. A channel may be returned again although it did not change: it is whole and overwrites. Cost: the number
   * of channels that changed in the caller's workspaces, or the number they follow, whichever is less.
   */
  syncChannels: ChannelDelta;
  /** What a member may do in a channel, and which rule decided each permission. About oneself, or with MANAGE_ROLES. */
  explainPermissions: Array<PermissionReason>;
  /** Everything a client needs for its first screen, in one request. Complete up to cursor and to each workspace's rev. */
  ready: Ready;
  /** Of up to 200 people with whom the caller shares a conversation or workspace; for others OFFLINE. */
  presences: Array<Presence>;
  /** The caller's own: connected ones first, then the one seen last. */
  devices: Array<Device>;
  notificationSettings: NotificationSettings;
  /**
   * Messages the caller may read at this moment, newest first: the index proposes, the current rights decide. query, 1 to
   * 256 characters: words (all must occur; a prefix of the last one is enough), "exact phrase", -without; only exclusions,
   * or no word at all: INVALID_INPUT. Words are separated as Unicode does, and where scripts meet; names, addresses and
   * code are also found as typed (foo_bar, 10.0.0.1, C++). Case and diacritics are ignored. Chinese, Japanese and Korean
   * text is found by any part of two characters or more. Without conversationIds: the caller's present conversations,
   * followed channels and followed threads; others they may read only when named. A message is found within 5 s of being
   * sent, as edited, and no longer once recalled. A cursor of another search: INVALID_INPUT.
   */
  searchMessages: SearchConnection;
  /** applicationServerKey for PushManager.subscribe, in base64url. Null: there is no Web Push here. */
  webPushPublicKey?: Maybe<Scalars['String']['output']>;
  /** MANAGE_WEBHOOKS of the workspace; without one: role admin, those of the whole deployment. */
  webhooks: Array<Webhook>;
  /** Newest first, 30 days. */
  webhookDeliveries: WebhookDeliveryConnection;
  /** BAN_MEMBERS; without a workspace: role admin, bans from the whole deployment. */
  bans: BanConnection;
  /** VIEW_REPORTS of the workspace; without one: role admin. Open ones first. */
  reports: ReportConnection;
  /** MANAGE_WORKSPACE. */
  contentRules: Array<ContentRule>;
  export?: Maybe<Export>;
  /** The newest erasure of a user; null if there was none in the last 30 days. Role service or admin. */
  erasure?: Maybe<Erasure>;
  blockedUsers: UserConnection;
  node?: Maybe<Node>;
};


export type QueryUserArgs = {
  id: Scalars['ID']['input'];
};


export type QueryUsersArgs = {
  ids: Array<Scalars['ID']['input']>;
};


export type QuerySearchUsersArgs = {
  query: Scalars['String']['input'];
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryAuditLogArgs = {
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  actorId?: InputMaybe<Scalars['ID']['input']>;
  targetId?: InputMaybe<Scalars['ID']['input']>;
  actions?: InputMaybe<Array<Scalars['String']['input']>>;
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QuerySessionsArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
  subBiz?: InputMaybe<Scalars['String']['input']>;
  categoryId?: InputMaybe<Scalars['ID']['input']>;
};


export type QuerySessionArgs = {
  conversationId: Scalars['ID']['input'];
};


export type QuerySyncSessionsArgs = {
  since?: InputMaybe<Scalars['Cursor']['input']>;
  first?: InputMaybe<Scalars['Int']['input']>;
};


export type QueryMessagesArgs = {
  conversationId: Scalars['ID']['input'];
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
  last?: InputMaybe<Scalars['Int']['input']>;
  before?: InputMaybe<Scalars['String']['input']>;
  aroundSeq?: InputMaybe<Scalars['Int']['input']>;
  fromSeq?: InputMaybe<Scalars['Int']['input']>;
};


export type QueryMessageArgs = {
  id: Scalars['ID']['input'];
};


export type QueryOfflineMessagesArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryPinnedMessagesArgs = {
  conversationId: Scalars['ID']['input'];
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryReactorsArgs = {
  messageId: Scalars['ID']['input'];
  emoji: Scalars['String']['input'];
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryAttachmentArgs = {
  id: Scalars['ID']['input'];
};


export type QueryConversationArgs = {
  id: Scalars['ID']['input'];
};


export type QueryGroupArgs = {
  id: Scalars['ID']['input'];
};


export type QueryMyGroupsArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryThreadArgs = {
  id: Scalars['ID']['input'];
};


export type QueryThreadsArgs = {
  conversationId: Scalars['ID']['input'];
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryWorkspaceArgs = {
  id: Scalars['ID']['input'];
};


export type QueryMyWorkspacesArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryOpenWorkspacesArgs = {
  query?: InputMaybe<Scalars['String']['input']>;
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryInviteArgs = {
  code: Scalars['String']['input'];
};


export type QueryChannelArgs = {
  id: Scalars['ID']['input'];
};


export type QueryFollowedChannelsArgs = {
  workspaceId: Scalars['ID']['input'];
  unreadOnly?: InputMaybe<Scalars['Boolean']['input']>;
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QuerySyncChannelsArgs = {
  since?: InputMaybe<Scalars['Cursor']['input']>;
  first?: InputMaybe<Scalars['Int']['input']>;
};


export type QueryExplainPermissionsArgs = {
  channelId: Scalars['ID']['input'];
  userId?: InputMaybe<Scalars['ID']['input']>;
};


export type QueryPresencesArgs = {
  userIds: Array<Scalars['ID']['input']>;
};


export type QuerySearchMessagesArgs = {
  query: Scalars['String']['input'];
  filter?: InputMaybe<SearchFilter>;
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryWebhooksArgs = {
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
};


export type QueryWebhookDeliveriesArgs = {
  webhookId: Scalars['ID']['input'];
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryBansArgs = {
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryReportsArgs = {
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  state?: InputMaybe<ReportState>;
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryContentRulesArgs = {
  workspaceId: Scalars['ID']['input'];
};


export type QueryExportArgs = {
  id: Scalars['ID']['input'];
};


export type QueryErasureArgs = {
  userId: Scalars['ID']['input'];
};


export type QueryBlockedUsersArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};


export type QueryNodeArgs = {
  id: Scalars['ID']['input'];
};

/** count is the number of users, exactly. users: the first 5. */
export type Reaction = {
  __typename: 'Reaction';
  emoji: Scalars['String']['output'];
  count: Scalars['Int']['output'];
  firstAt: Scalars['DateTime']['output'];
  users: Array<User>;
  viewerReacted: Scalars['Boolean']['output'];
};

/**
 * The message's reactions as they are now. At most one per 500 ms and message, the last one always. In groups of more than
 * 200 members in channelEvents only.
 */
export type ReactionsChanged = {
  __typename: 'ReactionsChanged';
  conversationId: Scalars['ID']['output'];
  messageId: Scalars['ID']['output'];
  reactions: Array<Reaction>;
  cursor: Scalars['Cursor']['output'];
};

export type Ready = {
  __typename: 'Ready';
  me: User;
  sessions: SessionConnection;
  workspaces: Array<Workspace>;
  attention: Attention;
  presence: OwnPresence;
  notificationSettings: NotificationSettings;
  cursor: Scalars['Cursor']['output'];
};

/** Reading without an earlier acknowledgement of delivery sets both times, with one READ event. */
export type Receipt = {
  __typename: 'Receipt';
  status: ReceiptStatus;
  deliveredAt?: Maybe<Scalars['DateTime']['output']>;
  readAt?: Maybe<Scalars['DateTime']['output']>;
  user: User;
};

/**
 * One high-water mark: user has received or read everything up to seq. Sent once per acknowledgement, however many
 * messages it covers, to the user's own devices and to members who sent a message that it covers. Pushed in groups of up
 * to 200 members; in larger ones query receipts.
 */
export type ReceiptAdvanced = {
  __typename: 'ReceiptAdvanced';
  conversationId: Scalars['ID']['output'];
  status: ReceiptStatus;
  seq: Scalars['Int']['output'];
  cursor: Scalars['Cursor']['output'];
  user: User;
};

export type ReceiptConnection = {
  __typename: 'ReceiptConnection';
  edges: Array<ReceiptEdge>;
  pageInfo: PageInfo;
};

export type ReceiptEdge = {
  __typename: 'ReceiptEdge';
  node: Receipt;
  cursor: Scalars['String']['output'];
};

export type ReceiptStatus =
  | 'SENT'
  | 'DELIVERED'
  | 'READ';

/**
 * message: the reported one, or the one with the reported file; null where the viewer may not read it (any more). text:
 * that of the reported message when it was reported. user: the reported one, or the author of what was reported.
 * attachment: has a url for those only who may read its message. action: null until RESOLVED.
 */
export type Report = Node & {
  __typename: 'Report';
  id: Scalars['ID']['output'];
  text?: Maybe<Scalars['String']['output']>;
  reason: ReportReason;
  note?: Maybe<Scalars['String']['output']>;
  state: ReportState;
  action?: Maybe<ReportAction>;
  createdAt: Scalars['DateTime']['output'];
  reporter: User;
  message?: Maybe<Message>;
  user?: Maybe<User>;
  attachment?: Maybe<Attachment>;
  resolvedBy?: Maybe<User>;
};

export type ReportAction =
  | 'NONE'
  | 'RECALL'
  | 'TIMEOUT'
  | 'KICK'
  | 'BAN';

export type ReportConnection = {
  __typename: 'ReportConnection';
  edges: Array<ReportEdge>;
  pageInfo: PageInfo;
};

export type ReportEdge = {
  __typename: 'ReportEdge';
  node: Report;
  cursor: Scalars['String']['output'];
};

export type ReportReason =
  | 'SPAM'
  | 'HARASSMENT'
  | 'VIOLENCE'
  | 'SEXUAL'
  | 'SELF_HARM'
  | 'ILLEGAL'
  | 'OTHER';

export type ReportState =
  | 'OPEN'
  | 'RESOLVED';

/** permissionBits: the same permissions as a bit field in decimal; bit n is the n-th value of Permission, counted from 0. */
export type Role = Node & {
  __typename: 'Role';
  id: Scalars['ID']['output'];
  name: Scalars['String']['output'];
  position: Scalars['Int']['output'];
  color?: Maybe<Scalars['String']['output']>;
  isMentionable: Scalars['Boolean']['output'];
  /** Members with this role are listed apart. */
  isHoisted: Scalars['Boolean']['output'];
  permissions: Array<Permission>;
  permissionBits: Scalars['String']['output'];
  memberCount: Scalars['Int']['output'];
};

export type RoleInput = {
  name?: InputMaybe<Scalars['String']['input']>;
  position?: InputMaybe<Scalars['Int']['input']>;
  color?: InputMaybe<Scalars['String']['input']>;
  permissions?: InputMaybe<Array<Permission>>;
  isMentionable?: InputMaybe<Scalars['Boolean']['input']>;
  isHoisted?: InputMaybe<Scalars['Boolean']['input']>;
};

/**
 * complete: false means something was not searched (the index is behind, or over its time limit). totalAtLeast: a lower
 * bound. indexedUpTo: the index is complete up to then.
 */
export type SearchConnection = {
  __typename: 'SearchConnection';
  edges: Array<SearchEdge>;
  pageInfo: PageInfo;
  totalAtLeast: Scalars['Int']['output'];
  complete: Scalars['Boolean']['output'];
  indexedUpTo: Scalars['Timestamp']['output'];
};

/** highlights: where the words occur in content. */
export type SearchEdge = {
  __typename: 'SearchEdge';
  node: Message;
  cursor: Scalars['String']['output'];
  highlights: Array<TextRange>;
};

/** after and before are exclusive. FILE includes images. At most 100 conversationIds; c_…, t_… too. */
export type SearchFilter = {
  conversationIds?: InputMaybe<Array<Scalars['ID']['input']>>;
  workspaceId?: InputMaybe<Scalars['ID']['input']>;
  senderIds?: InputMaybe<Array<Scalars['ID']['input']>>;
  mentionsMe?: InputMaybe<Scalars['Boolean']['input']>;
  after?: InputMaybe<Scalars['DateTime']['input']>;
  before?: InputMaybe<Scalars['DateTime']['input']>;
  has?: InputMaybe<Array<SearchHas>>;
  pinned?: InputMaybe<Scalars['Boolean']['input']>;
  inThreads?: InputMaybe<Scalars['Boolean']['input']>;
};

export type SearchHas =
  | 'FILE'
  | 'IMAGE'
  | 'VIDEO'
  | 'LINK';

/**
 * Exactly one of toUserId, conversationId and threadOf. toUserId opens the private conversation (inside subBiz, if given)
 * if there is none.
 */
export type SendMessageInput = {
  toUserId?: InputMaybe<Scalars['ID']['input']>;
  conversationId?: InputMaybe<Scalars['ID']['input']>;
  /** Reply in the thread of this message, which comes into being with its first reply. */
  threadOf?: InputMaybe<Scalars['ID']['input']>;
  /** With threadOf: also show it in the conversation. One message in two places: one text, one edit, one recall. */
  broadcast?: InputMaybe<Scalars['Boolean']['input']>;
  /** With toUserId only; [a-z0-9-]{1,32}. */
  subBiz?: InputMaybe<Scalars['String']['input']>;
  /**
   * 1 to 4000 characters (Unicode code points), not only white space, no NUL. With attachments it may be empty. A message
   * to oneself: INVALID_INPUT.
   */
  content: Scalars['String']['input'];
  contentType?: InputMaybe<ContentType>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
  /** Members of the conversation only (INVALID_INPUT); in a channel: people who can see it. */
  mentions?: InputMaybe<Array<Scalars['ID']['input']>>;
  /** In a group: OWNER and ADMIN (FORBIDDEN). In a channel: MENTION_EVERYONE. In a private conversation: INVALID_INPUT. */
  mentionAll?: InputMaybe<Scalars['Boolean']['input']>;
  /** In a channel: mentionable roles (others need MENTION_EVERYONE). */
  mentionRoleIds?: InputMaybe<Array<Scalars['ID']['input']>>;
  /** A message of the same conversation that the sender can see (INVALID_INPUT). */
  replyToId?: InputMaybe<Scalars['ID']['input']>;
  /** The sender's own files that are READY (INVALID_INPUT), at most 10. A file goes into one message. */
  attachmentIds?: InputMaybe<Array<Scalars['ID']['input']>>;
  /** No push notification to anybody. */
  silent?: InputMaybe<Scalars['Boolean']['input']>;
  /** No link previews. */
  suppressEmbeds?: InputMaybe<Scalars['Boolean']['input']>;
  /** Bots and service callers only (FORBIDDEN); at most 10. */
  embeds?: InputMaybe<Array<EmbedInput>>;
  idempotencyKey?: InputMaybe<Scalars['String']['input']>;
};

export type SendMessagePayload = {
  __typename: 'SendMessagePayload';
  message: Message;
  replayed: Scalars['Boolean']['output'];
  session: Session;
};

export type SeqRange = {
  __typename: 'SeqRange';
  fromSeq: Scalars['Int']['output'];
  toSeq?: Maybe<Scalars['Int']['output']>;
};

/** One user's context of one conversation. Overwritten, never appended. */
export type Session = Node & {
  __typename: 'Session';
  id: Scalars['ID']['output'];
  /** Seq of the conversation's newest message, and how far this user has read and received. */
  writeSeq: Scalars['Int']['output'];
  readSeq: Scalars['Int']['output'];
  deliveredSeq: Scalars['Int']['output'];
  /** Messages up to readSeq that count as unread until read. */
  readCount: Scalars['Int']['output'];
  /**
   * Messages after readSeq that are visible to the user, not their own and not SYSTEM. A recalled message counts until it
   * is read.
   */
  unreadCount: Scalars['Int']['output'];
  /**
   * Of those, the ones that mention the user, a role of theirs, or everybody. The newest 1,000 unread messages are
   * counted.
   */
  unreadMentionCount: Scalars['Int']['output'];
  /** Set by setUnread: show a dot without a number. */
  unreadStatus: Scalars['Boolean']['output'];
  muteStatus: Scalars['Boolean']['output'];
  mutedUntil?: Maybe<Scalars['DateTime']['output']>;
  priority: Scalars['Int']['output'];
  categoryId?: Maybe<Scalars['ID']['output']>;
  subBiz?: Maybe<Scalars['String']['output']>;
  status: SessionStatus;
  /** Moved by any change; strictly increasing over all changes of one user. Synchronisation reads this. */
  activeTs: Scalars['Timestamp']['output'];
  /** Moved only by new messages that are not SYSTEM, by pinning and by setUnread. Clients sort by this. */
  writeTs: Scalars['Timestamp']['output'];
  /** PRIVATE only: how far the other person has received and read. */
  peerDeliveredSeq?: Maybe<Scalars['Int']['output']>;
  peerReadSeq?: Maybe<Scalars['Int']['output']>;
  /** The notification level in force here. */
  notifications: NotificationLevel;
  /**
   * For an INVALID session: still answers id, type and last title. For a dismissed group: status DISSOLVED and its last
   * owner.
   */
  conversation: Conversation;
  lastMessage?: Maybe<Message>;
};

export type SessionCategory = {
  __typename: 'SessionCategory';
  categoryId: Scalars['ID']['output'];
  sessionCount: Scalars['Int']['output'];
  unreadCount: Scalars['Int']['output'];
  writeTs: Scalars['Timestamp']['output'];
  lastMessage?: Maybe<Message>;
};

/** totalUnread: over all of the caller's sessions. cursor: synchronise from here after showing this page. */
export type SessionConnection = {
  __typename: 'SessionConnection';
  edges: Array<SessionEdge>;
  pageInfo: PageInfo;
  totalUnread: Scalars['Int']['output'];
  cursor: Scalars['Cursor']['output'];
};

export type SessionDelta = {
  __typename: 'SessionDelta';
  sessions: Array<Session>;
  cursor: Scalars['Cursor']['output'];
  hasMore: Scalars['Boolean']['output'];
  totalUnread: Scalars['Int']['output'];
  reset: Scalars['Boolean']['output'];
};

export type SessionEdge = {
  __typename: 'SessionEdge';
  node: Session;
  cursor: Scalars['String']['output'];
};

export type SessionStatus =
  | 'ACTIVE'
  | 'INVALID';

/**
 * Represents all of the caller's sessions inside one subBiz in the main list. writeTs and lastMessage are the newest of
 * theirs; unreadCount is the sum of those not muted. It can be pinned, muted and read (which reads all of them) like any
 * session. totalUnread counts the sessions inside it once. Its seqs are 0. setUnread, deleteSession and assignCategory do
 * not apply (INVALID_INPUT). syncSessions returns it beside the sessions inside. Followed threads are the subBiz
 * "@threads".
 */
export type SubBizGateway = Conversation & Node & {
  __typename: 'SubBizGateway';
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  session?: Maybe<Session>;
  subBiz: Scalars['String']['output'];
};

export type Subscription = {
  __typename: 'Subscription';
  /**
   * Changes to the caller's session state made on any device, and changes made to them (a mute that ended, a dismissed
   * group, a membership). Not new messages: only message events change a session without one of these. First CATCH_UP in
   * one or more parts (with since: everything missed; without: empty), then live, without gap or repetition between the
   * two.
   */
  syncSession: SyncSession;
  /**
   * Messages (new, edited, recalled), receipts, reactions and typing in all of the caller's private conversations, groups
   * and followed threads, or in one of them, and mentions in channels. Includes the caller's own messages, for their other
   * devices. With since: first what was missed (messages in order of seq per conversation), then CaughtUp in any case,
   * then live, without gap or repetition. Of a group the caller has left: what was missed while a member, then CaughtUp,
   * then nothing.
   */
  messageEvents: MessageEvent;
  /**
   * Everything that happens in up to 20 channels, threads or groups that are on the screen: messages, edits, recalls,
   * reactions, pins, thread counts, typing. For bots (isBot) up to 1,000. rev: from channel, thread or an event. What was
   * missed comes first, in order, then ChannelCaughtUp for each, then live, without gap or repetition. reset: true means:
   * fetch the newest page again. When access ends: AccessEnded for that one, then nothing more of it.
   */
  channelEvents: ChannelEvent;
  /**
   * What changes in up to 20 workspaces: name, roles, categories, the channels the caller can see, the caller's own
   * membership, voice states, and ChannelActivity of followed channels. rev: from ready, workspace, or an event. First
   * what changed meanwhile (whole objects, each once), then WorkspaceCaughtUp, then live.
   */
  workspaceEvents: WorkspaceEvent;
  /**
   * People on the screen, at most 200: first what each is now, then changes, at most one per user in 5 s. Also when their
   * name or picture changes.
   */
  presenceEvents: Presence;
};


export type SubscriptionSyncSessionArgs = {
  since?: InputMaybe<Scalars['Cursor']['input']>;
};


export type SubscriptionMessageEventsArgs = {
  since?: InputMaybe<Scalars['Cursor']['input']>;
  conversationId?: InputMaybe<Scalars['ID']['input']>;
};


export type SubscriptionChannelEventsArgs = {
  channels: Array<Position>;
};


export type SubscriptionWorkspaceEventsArgs = {
  workspaces: Array<Position>;
};


export type SubscriptionPresenceEventsArgs = {
  userIds: Array<Scalars['ID']['input']>;
};

export type SyncReason =
  | 'READ'
  | 'DELIVERED'
  | 'DELETE'
  | 'MUTE'
  | 'UNMUTE'
  | 'UNREAD'
  | 'PIN'
  | 'UNPIN'
  | 'CATEGORY'
  | 'MEMBERSHIP'
  | 'NOTIFICATIONS'
  | 'CATCH_UP';

/** hasMore: further parts of CATCH_UP follow; false for live changes. */
export type SyncSession = {
  __typename: 'SyncSession';
  reason: SyncReason;
  hasMore: Scalars['Boolean']['output'];
  sessions: Array<Session>;
  totalUnread: Scalars['Int']['output'];
  cursor: Scalars['Cursor']['output'];
  reset: Scalars['Boolean']['output'];
};

export type SystemEvent = {
  __typename: 'SystemEvent';
  kind: SystemEventKind;
  actor: User;
  targets: Array<User>;
  text?: Maybe<Scalars['String']['output']>;
};

export type SystemEventKind =
  | 'MEMBERS_JOINED'
  | 'MEMBER_LEFT'
  | 'MEMBER_REMOVED'
  | 'OWNER_CHANGED'
  | 'RENAMED'
  | 'TOPIC_CHANGED'
  | 'MESSAGE_PINNED'
  | 'CHANNEL_ARCHIVED'
  | 'CHANNEL_UNARCHIVED'
  | 'CUSTOM';

/** [start, end) in code points. */
export type TextRange = {
  __typename: 'TextRange';
  start: Scalars['Int']['output'];
  end: Scalars['Int']['output'];
};

export type Thread = Conversation & Node & {
  __typename: 'Thread';
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  session?: Maybe<Session>;
  parent: Message;
  /** Replies that are not recalled. */
  replyCount: Scalars['Int']['output'];
  participantCount: Scalars['Int']['output'];
  /** People who replied, the latest first; at most 50. */
  participants: Array<User>;
  lastReplyAt?: Maybe<Scalars['DateTime']['output']>;
  followerCount: Scalars['Int']['output'];
  viewerFollows: Scalars['Boolean']['output'];
  isLocked: Scalars['Boolean']['output'];
  rev: Scalars['Timestamp']['output'];
};


export type ThreadParticipantsArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
};

/** Reply count, participants or lock changed. At most one per second and thread, the last one always. */
export type ThreadChanged = {
  __typename: 'ThreadChanged';
  parentId: Scalars['ID']['output'];
  cursor: Scalars['Cursor']['output'];
  thread: Thread;
};

export type ThreadConnection = {
  __typename: 'ThreadConnection';
  edges: Array<ThreadEdge>;
  pageInfo: PageInfo;
};

export type ThreadEdge = {
  __typename: 'ThreadEdge';
  node: Thread;
  cursor: Scalars['String']['output'];
};

export type TypingStarted = {
  __typename: 'TypingStarted';
  conversationId: Scalars['ID']['output'];
  at: Scalars['Timestamp']['output'];
  user: User;
};

export type TypingStopped = {
  __typename: 'TypingStopped';
  conversationId: Scalars['ID']['output'];
  at: Scalars['Timestamp']['output'];
  user: User;
};

/**
 * Fields that are left out stay as they are. topic, categoryId: null removes it. metadata: null leaves it as it is; {}
 * empties it.
 */
export type UpdateChannelInput = {
  name?: InputMaybe<Scalars['String']['input']>;
  topic?: InputMaybe<Scalars['String']['input']>;
  categoryId?: InputMaybe<Scalars['ID']['input']>;
  position?: InputMaybe<Scalars['Int']['input']>;
  isDefault?: InputMaybe<Scalars['Boolean']['input']>;
  kind?: InputMaybe<ChannelKind>;
  slowModeSeconds?: InputMaybe<Scalars['Int']['input']>;
  inheritsPermissions?: InputMaybe<Scalars['Boolean']['input']>;
  historyVisibility?: InputMaybe<HistoryVisibility>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
};

/**
 * Fields that are left out stay as they are. avatarUrl: null removes the picture. metadata: null leaves it as it is; {}
 * empties it.
 */
export type UpdateGroupInput = {
  name?: InputMaybe<Scalars['String']['input']>;
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
  historyVisibility?: InputMaybe<HistoryVisibility>;
};

export type UpdateWorkspaceInput = {
  name?: InputMaybe<Scalars['String']['input']>;
  iconUrl?: InputMaybe<Scalars['String']['input']>;
  isOpen?: InputMaybe<Scalars['Boolean']['input']>;
  plan?: InputMaybe<WorkspacePlan>;
  retentionDays?: InputMaybe<Scalars['Int']['input']>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
};

/** id: also that of the Attachment. */
export type Upload = {
  __typename: 'Upload';
  id: Scalars['ID']['output'];
  url: Scalars['String']['output'];
  method: Scalars['String']['output'];
  expiresAt: Scalars['DateTime']['output'];
  headers: Array<Header>;
};

export type User = Node & {
  __typename: 'User';
  id: Scalars['ID']['output'];
  displayName: Scalars['String']['output'];
  avatarUrl?: Maybe<Scalars['String']['output']>;
  isBot: Scalars['Boolean']['output'];
  metadata?: Maybe<Scalars['JSON']['output']>;
  /** Null unless the caller shares a conversation or workspace with them. */
  presence?: Maybe<Presence>;
};

export type UserConnection = {
  __typename: 'UserConnection';
  edges: Array<UserEdge>;
  pageInfo: PageInfo;
};

export type UserEdge = {
  __typename: 'UserEdge';
  node: User;
  cursor: Scalars['String']['output'];
};

export type UserInput = {
  id: Scalars['ID']['input'];
  displayName: Scalars['String']['input'];
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
  isBot?: InputMaybe<Scalars['Boolean']['input']>;
  metadata?: InputMaybe<Scalars['JSON']['input']>;
};

/** url and token are null if no media server is configured: voice states then only tell who is where. */
export type VoiceJoin = {
  __typename: 'VoiceJoin';
  state: VoiceState;
  url?: Maybe<Scalars['String']['output']>;
  token?: Maybe<Scalars['String']['output']>;
  expiresAt?: Maybe<Scalars['DateTime']['output']>;
};

/** Ends 45 s after the device was last heard from. */
export type VoiceState = {
  __typename: 'VoiceState';
  channelId: Scalars['ID']['output'];
  selfMute: Scalars['Boolean']['output'];
  selfDeaf: Scalars['Boolean']['output'];
  mute: Scalars['Boolean']['output'];
  deaf: Scalars['Boolean']['output'];
  video: Scalars['Boolean']['output'];
  screen: Scalars['Boolean']['output'];
  joinedAt: Scalars['DateTime']['output'];
  user: User;
};

export type VoiceStateChanged = {
  __typename: 'VoiceStateChanged';
  workspaceId: Scalars['ID']['output'];
  state: VoiceState;
  left: Scalars['Boolean']['output'];
  rev: Scalars['Timestamp']['output'];
};

export type WebPushInput = {
  endpoint: Scalars['String']['input'];
  p256dh: Scalars['String']['input'];
  auth: Scalars['String']['input'];
};

/** secret: only in the answer to creating and rotating. PAUSED: after 5 days of failures, or at once after 410. */
export type Webhook = Node & {
  __typename: 'Webhook';
  id: Scalars['ID']['output'];
  url: Scalars['String']['output'];
  secret?: Maybe<Scalars['String']['output']>;
  kind: WebhookKind;
  name?: Maybe<Scalars['String']['output']>;
  events: Array<WebhookEventType>;
  state: WebhookState;
  failingSince?: Maybe<Scalars['DateTime']['output']>;
};

/** An event of an outgoing webhook. eventId: its webhook-id. status: of the last answer; null: there was none. */
export type WebhookDelivery = {
  __typename: 'WebhookDelivery';
  id: Scalars['ID']['output'];
  eventId: Scalars['ID']['output'];
  attempts: Scalars['Int']['output'];
  status?: Maybe<Scalars['Int']['output']>;
  nextAttemptAt?: Maybe<Scalars['DateTime']['output']>;
  deliveredAt?: Maybe<Scalars['DateTime']['output']>;
};

export type WebhookDeliveryConnection = {
  __typename: 'WebhookDeliveryConnection';
  edges: Array<WebhookDeliveryEdge>;
  pageInfo: PageInfo;
};

export type WebhookDeliveryEdge = {
  __typename: 'WebhookDeliveryEdge';
  node: WebhookDelivery;
  cursor: Scalars['String']['output'];
};

export type WebhookEventType =
  | 'MESSAGE_CREATED'
  | 'MESSAGE_UPDATED'
  | 'MESSAGE_RECALLED'
  | 'REACTIONS_CHANGED'
  | 'CHANNEL_CHANGED'
  | 'GROUP_CHANGED'
  | 'MEMBER_JOINED'
  | 'MEMBER_LEFT'
  | 'REPORT_OPENED'
  | 'USER_OFFLINE_MESSAGE';

export type WebhookKind =
  | 'INCOMING'
  | 'OUTGOING';

export type WebhookState =
  | 'ACTIVE'
  | 'FAILING'
  | 'PAUSED';

export type Workspace = Node & {
  __typename: 'Workspace';
  id: Scalars['ID']['output'];
  name: Scalars['String']['output'];
  domain?: Maybe<Scalars['String']['output']>;
  iconUrl?: Maybe<Scalars['String']['output']>;
  plan: WorkspacePlan;
  /** Anyone may join without an invitation. */
  isOpen: Scalars['Boolean']['output'];
  memberCount: Scalars['Int']['output'];
  /** Messages older than this are deleted; null: kept. In updateWorkspace 0 means kept; 1 to 36500 else. */
  retentionDays?: Maybe<Scalars['Int']['output']>;
  createdAt: Scalars['DateTime']['output'];
  rev: Scalars['Timestamp']['output'];
  owner: User;
  metadata?: Maybe<Scalars['JSON']['output']>;
  /** Approximate, at most 15 s old, without INVISIBLE members. */
  onlineCount: Scalars['Int']['output'];
  /** Null to non-members. */
  viewer?: Maybe<WorkspaceMember>;
  viewerPermissions: Array<Permission>;
  /** Highest first; the last is the role of everyone (r_ followed by the workspace's own part of the id). */
  roles: Array<Role>;
  /**
   * By name. query: prefix of name or nickname. online: those online first, at most 1,000 of them, then the others by
   * name.
   */
  members: WorkspaceMemberConnection;
  categories: Array<ChannelCategory>;
  /** Those the caller can see, by category and position. */
  channels: ChannelConnection;
};


export type WorkspaceMembersArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
  query?: InputMaybe<Scalars['String']['input']>;
  roleId?: InputMaybe<Scalars['ID']['input']>;
  online?: InputMaybe<Scalars['Boolean']['input']>;
};


export type WorkspaceChannelsArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
};

export type WorkspaceCaughtUp = {
  __typename: 'WorkspaceCaughtUp';
  workspaceId: Scalars['ID']['output'];
  rev: Scalars['Timestamp']['output'];
  reset: Scalars['Boolean']['output'];
};

/** Name, icon, plan, roles, categories: fetch what is shown. */
export type WorkspaceChanged = {
  __typename: 'WorkspaceChanged';
  rev: Scalars['Timestamp']['output'];
  workspace: Workspace;
};

export type WorkspaceConnection = {
  __typename: 'WorkspaceConnection';
  edges: Array<WorkspaceEdge>;
  pageInfo: PageInfo;
};

export type WorkspaceEdge = {
  __typename: 'WorkspaceEdge';
  node: Workspace;
  cursor: Scalars['String']['output'];
};

export type WorkspaceEvent = WorkspaceChanged | ChannelChanged | ChannelGone | OwnMembershipChanged | ChannelActivity | VoiceStateChanged | WorkspaceCaughtUp;

/** timedOutUntil: until then the member has no permissions but VIEW_CHANNEL and READ_HISTORY. It ends by itself. */
export type WorkspaceMember = {
  __typename: 'WorkspaceMember';
  nickname?: Maybe<Scalars['String']['output']>;
  joinedAt: Scalars['DateTime']['output'];
  user: User;
  roles: Array<Role>;
  timedOutUntil?: Maybe<Scalars['DateTime']['output']>;
};

export type WorkspaceMemberConnection = {
  __typename: 'WorkspaceMemberConnection';
  edges: Array<WorkspaceMemberEdge>;
  pageInfo: PageInfo;
};

export type WorkspaceMemberEdge = {
  __typename: 'WorkspaceMemberEdge';
  node: WorkspaceMember;
  cursor: Scalars['String']['output'];
};

export type WorkspacePlan =
  | 'FREE'
  | 'PRO'
  | 'BUSINESS'
  | 'ENTERPRISE';
