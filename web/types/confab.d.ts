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
  /** Opaque position on the caller's own clock (activeTs), good on any server of the deployment and interchangeable: one taken from syncSessions may be given to a subscription, and back. Where a cursor can't be resumed exactly (too old, another user's, nonsense), nothing is skipped over in silence: the answer says reset: true and carries what a new client would get. */
  Cursor: { input: string; output: string; }
  /** ISO 8601 in UTC with milliseconds, such as 2026-01-02T03:04:05.678Z. */
  DateTime: { input: string; output: string; }
  /** Milliseconds since the Unix epoch on the server's clock, as a JSON number (below 2^53). */
  Timestamp: { input: number; output: number; }
};

export type CaughtUp = {
  __typename: 'CaughtUp';
  cursor: Scalars['Cursor']['output'];
  reset: Scalars['Boolean']['output'];
};

/** SYSTEM: written by the server only (INVALID_INPUT from a client); takes a seq, never counts as unread, never in offlineMessages; its sender is who acted. BOT_COMMAND: an ordinary message that bots look for. */
export type ContentType =
  | 'TEXT'
  | 'SYSTEM'
  | 'BOT_COMMAND';

/** title: the other person's name, the group's name, the subBiz. */
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
  | 'SUB_BIZ';

/** name: 1 to 100 characters. The same idempotencyKey from the same creator within 24 hours answers the first group. */
export type CreateGroupInput = {
  name: Scalars['String']['input'];
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
  memberIds: Array<Scalars['ID']['input']>;
  historyVisibility?: InputMaybe<HistoryVisibility>;
  subBiz?: InputMaybe<Scalars['String']['input']>;
  idempotencyKey?: InputMaybe<Scalars['String']['input']>;
};

export type Delivery = {
  __typename: 'Delivery';
  status: ReceiptStatus;
  recipientCount: Scalars['Int']['output'];
  deliveredCount: Scalars['Int']['output'];
  readCount: Scalars['Int']['output'];
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
  | 'UNAVAILABLE'
  | 'INTERNAL';

export type Group = Conversation & Node & {
  __typename: 'Group';
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  session?: Maybe<Session>;
  name: Scalars['String']['output'];
  avatarUrl?: Maybe<Scalars['String']['output']>;
  memberCount: Scalars['Int']['output'];
  historyVisibility: HistoryVisibility;
  status: GroupStatus;
  createdAt: Scalars['DateTime']['output'];
  owner: User;
  /** Null to those no longer in it. */
  members?: Maybe<GroupMemberConnection>;
  viewerRole?: Maybe<GroupRole>;
  /** The stretches of seq the caller may read, oldest first; toSeq null while still a member. */
  visibleRanges: Array<SeqRange>;
};


export type GroupMembersArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
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

/** SINCE_JOIN: only while one was a member. FULL: members also read what came before they joined and between; former members up to when they last left. */
export type HistoryVisibility =
  | 'SINCE_JOIN'
  | 'FULL';

export type Message = Node & {
  __typename: 'Message';
  id: Scalars['ID']['output'];
  conversationId: Scalars['ID']['output'];
  /** Position in the conversation: strictly increasing in the order of the conversation. What clients order and detect gaps by. */
  seq: Scalars['Int']['output'];
  contentType: ContentType;
  /** Null once recalled. */
  content?: Maybe<Scalars['String']['output']>;
  state: MessageState;
  mentionsAll: Scalars['Boolean']['output'];
  editCount: Scalars['Int']['output'];
  editedAt?: Maybe<Scalars['DateTime']['output']>;
  recalledAt?: Maybe<Scalars['DateTime']['output']>;
  createdAt: Scalars['DateTime']['output'];
  sender: User;
  mentions: Array<User>;
  replyTo?: Maybe<Message>;
  /** The sender's own key, shown to the sender alone. */
  idempotencyKey?: Maybe<Scalars['String']['output']>;
  /** What the sender's tick shows: READ only when all recipients have read, DELIVERED only when all have received; SENT where there is no recipient. deliveredCount includes those who read. Null to all but the sender, and for SYSTEM. */
  delivery?: Maybe<Delivery>;
  /** One row a recipient (those who were members when it was sent, less the sender), in groups of any size; status: exactly that one. Null to all but the sender. */
  receipts?: Maybe<ReceiptConnection>;
};


export type MessageReceiptsArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
  status?: InputMaybe<ReceiptStatus>;
};

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

/** cursor: resume after this event. A client that has applied it holds everything before it. CaughtUp marks the moment between what was missed and what is live; reset true: start from syncSessions anew. */
export type MessageEvent = MessageCreated | MessageUpdated | MessageRecalled | ReceiptAdvanced | TypingStarted | CaughtUp;

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
  /** Callers with role service or admin only. A user also comes to exist with their first authenticated request; the token's name and picture fill what is not set. */
  upsertUsers: Array<User>;
  /** Clears unreadCount, sets readSeq to writeSeq (or to upToSeq if lower; never backwards), clears the offline queue up to it, and tells the senders. upToSeq past writeSeq means writeSeq; below 0: INVALID_INPUT. */
  markRead: Session;
  /** Everything up to upToSeq has arrived on one of the caller's devices. Monotonic and idempotent; past writeSeq means writeSeq, below 0: INVALID_INPUT. */
  ackDelivered: Session;
  /** Soft delete of the caller's own view: status INVALID, unread cleared without a receipt to anybody; history stays; the next message that isn't SYSTEM revives it with its priority, mute and category. hard: true also forgets those. Either way other devices get the tombstone. */
  deleteSession: Session;
  /** Muting takes the session's unreadCount out of totalUnread; unmuting puts it back. until: the mute ends by itself then (SyncSession UNMUTE); in the past, or with muted: false: INVALID_INPUT. */
  muteSession: Session;
  /** priority 0 to 1000: above 0 pins (higher is nearer the top) and moves writeTs and activeTs; 0 unpins and moves activeTs alone. */
  pinSession: Session;
  /** A reminder to oneself: unreadStatus true, writeTs and activeTs move, readSeq and unreadCount do not. */
  setUnread: Session;
  /** categoryId null takes the sessions out of their folder. */
  assignCategory: Array<Session>;
  /** Durable (majority, journalled) before it is answered. Sending reads the conversation: the sender's readSeq becomes the message's seq, receipts to others included, without a SyncSession or ReceiptAdvanced to oneself. idempotencyKey: 1 to 128 characters, kept 24 hours per sender across all conversations; the same key with the same input as first sent answers the ORIGINAL message with replayed: true, and stores nothing; with any other input (destination resolved, defaults filled in): IDEMPOTENCY_CONFLICT. */
  sendMessage: SendMessagePayload;
  /** By its sender only (FORBIDDEN), while a member; one that is recalled, or SYSTEM: INVALID_INPUT. The same content again changes nothing. All who can see the message see the edit. */
  editMessage: Message;
  /** By its sender within 120 s (RECALL_TIMEOUT after that), or at any time by a group's owner or admin. The row stays; its content is withheld from then on. A second recall answers the message unchanged; a SYSTEM message: INVALID_INPUT. */
  recallMessage: Message;
  /** The creator becomes OWNER. Creator and members together, counted once each: at least 3 (GROUP_TOO_SMALL); a group may shrink below that later. At most 5,000 members, by setting (GROUP_FULL). Everybody's session is ACTIVE at once. */
  createGroup: Group;
  /** OWNER and ADMIN. What is left out stays; avatarUrl null takes the picture away. */
  updateGroup: Group;
  /** Any member may. Those who are members already are passed over. Who joins, or joins again, gets an ACTIVE session and starts with everything so far read and delivered, without receipts to anybody: readable as historyVisibility says, never unread. */
  inviteMembers: Group;
  /** OWNER and ADMIN may; nobody removes the OWNER; an ADMIN does not remove an ADMIN. */
  removeMember: Group;
  /** Anyone but the OWNER (OWNER_CANNOT_LEAVE). The session stays, frozen at the last message the member could see; so it does for one who is removed. */
  leaveGroup: Scalars['Boolean']['output'];
  /** OWNER only; the new owner must be a member; the old one becomes MEMBER. */
  transferOwner: Group;
  /** OWNER only; ADMIN or MEMBER. */
  setMemberRole: Group;
  /** OWNER only. Deletes the group record; group(id) and messages are null for everyone afterwards, the session of every member and former member becomes INVALID (SyncSession DELETE), and the id is never used again: NOT_FOUND. */
  dismissGroup: Scalars['Boolean']['output'];
  /** A private conversation: PRIVATE_CANNOT_DELETE. A group, by its OWNER: status DISSOLVED, members released, sessions INVALID, messages kept and readable to those who were in it. */
  deleteConversation: Scalars['Boolean']['output'];
  /** Broadcast to the conversation's other members who are connected, at most once in 3 s per user and conversation: true if it was (false with nobody there). */
  startTyping: Scalars['Boolean']['output'];
  /** On a WebSocket: replaces the connection's token before it expires, same user (FORBIDDEN else); subscriptions go on. Answers the new expiry. Over HTTP: INVALID_INPUT. */
  renewAuth: Scalars['DateTime']['output'];
};


export type MutationUpsertUsersArgs = {
  input: Array<UserInput>;
};


export type MutationMarkReadArgs = {
  conversationId: Scalars['ID']['input'];
  upToSeq?: InputMaybe<Scalars['Int']['input']>;
};


export type MutationAckDeliveredArgs = {
  conversationId: Scalars['ID']['input'];
  upToSeq: Scalars['Int']['input'];
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


export type MutationStartTypingArgs = {
  conversationId: Scalars['ID']['input'];
};


export type MutationRenewAuthArgs = {
  token: Scalars['String']['input'];
};

export type Node = {
  id: Scalars['ID']['output'];
};

export type PageInfo = {
  __typename: 'PageInfo';
  hasNextPage: Scalars['Boolean']['output'];
  hasPreviousPage: Scalars['Boolean']['output'];
  startCursor?: Maybe<Scalars['String']['output']>;
  endCursor?: Maybe<Scalars['String']['output']>;
};

export type PrivateConversation = Conversation & Node & {
  __typename: 'PrivateConversation';
  id: Scalars['ID']['output'];
  type: ConversationType;
  title: Scalars['String']['output'];
  lastMessage?: Maybe<Message>;
  session?: Maybe<Session>;
  peer: User;
};

export type Query = {
  __typename: 'Query';
  me: User;
  user?: Maybe<User>;
  /** The session list as a person sees it: pinned first by priority, then by writeTs, newest first. Sessions with a subBiz are not in the main list (subBiz: null): one gateway session stands for them. INVALID sessions are left out. With a categoryId alone: all that is filed under it. */
  sessions: SessionConnection;
  /** Also one that is INVALID, with that status. */
  session?: Maybe<Session>;
  /** Incremental synchronisation: every session whose activeTs moved past the cursor, oldest change first, including sessions that BECAME read, muted or INVALID. Without a cursor: all valid sessions. Page until hasMore is false. Its cost grows with what changed, never with how many sessions the user has. */
  syncSessions: SessionDelta;
  /** Sum of unreadCount over the caller's valid sessions that are not muted. */
  totalUnread: Scalars['Int']['output'];
  /** One aggregate per categoryId in use by the caller; muted sessions are left out of its unreadCount. */
  sessionCategories: Array<SessionCategory>;
  /** History in order of seq, so newest last in every page; last/before walks back. With neither first nor last: last 50. Only messages inside the caller's membership intervals, however many times they joined and left. An unknown conversation, or one the caller was never in, is null. */
  messages?: Maybe<MessageConnection>;
  message?: Maybe<Message>;
  /** Messages that reached the caller's conversations and were not acknowledged as delivered on any of the caller's devices (the offline queue), newest first. markRead and ackDelivered shrink it. */
  offlineMessages: MessageConnection;
  conversation?: Maybe<Conversation>;
  group?: Maybe<Group>;
  myGroups: GroupConnection;
  node?: Maybe<Node>;
};


export type QueryUserArgs = {
  id: Scalars['ID']['input'];
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
};


export type QueryMessageArgs = {
  id: Scalars['ID']['input'];
};


export type QueryOfflineMessagesArgs = {
  first?: InputMaybe<Scalars['Int']['input']>;
  after?: InputMaybe<Scalars['String']['input']>;
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


export type QueryNodeArgs = {
  id: Scalars['ID']['input'];
};

/** Reading without having acknowledged delivery sets both times, with one READ event. */
export type Receipt = {
  __typename: 'Receipt';
  status: ReceiptStatus;
  deliveredAt?: Maybe<Scalars['DateTime']['output']>;
  readAt?: Maybe<Scalars['DateTime']['output']>;
  user: User;
};

/** One high-water mark: user has received / read everything up to seq. Once per acknowledgement, however many messages it covers, to the user's own devices and to members who sent a message that it covers. Pushed in groups of up to 200 members; in larger ones ask receipts. */
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

/** Exactly one of toUserId and conversationId. toUserId opens the private conversation if there is none. */
export type SendMessageInput = {
  toUserId?: InputMaybe<Scalars['ID']['input']>;
  conversationId?: InputMaybe<Scalars['ID']['input']>;
  /** With toUserId only; [a-z0-9-]{1,32}. */
  subBiz?: InputMaybe<Scalars['String']['input']>;
  /** 1 to 4000 characters (Unicode code points), not only white space, no NUL. A message to oneself: INVALID_INPUT. */
  content: Scalars['String']['input'];
  contentType?: InputMaybe<ContentType>;
  /** Members of the conversation only (INVALID_INPUT). */
  mentions?: InputMaybe<Array<Scalars['ID']['input']>>;
  /** OWNER and ADMIN only (FORBIDDEN); in a private conversation: INVALID_INPUT. */
  mentionAll?: InputMaybe<Scalars['Boolean']['input']>;
  /** A message of the same conversation that the sender can see (INVALID_INPUT). */
  replyToId?: InputMaybe<Scalars['ID']['input']>;
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
  /** Position of the conversation's newest message, and how far this user has read and received. */
  writeSeq: Scalars['Int']['output'];
  readSeq: Scalars['Int']['output'];
  deliveredSeq: Scalars['Int']['output'];
  /** Messages after readSeq that are visible to the user, not their own and not SYSTEM. A recalled one counts until it is read. */
  unreadCount: Scalars['Int']['output'];
  /** Of those, the ones that mention the user or everybody; the newest 1,000 are counted. */
  unreadMentionCount: Scalars['Int']['output'];
  /** Set by setUnread: show a dot without a number. */
  unreadStatus: Scalars['Boolean']['output'];
  muteStatus: Scalars['Boolean']['output'];
  mutedUntil?: Maybe<Scalars['DateTime']['output']>;
  priority: Scalars['Int']['output'];
  categoryId?: Maybe<Scalars['ID']['output']>;
  subBiz?: Maybe<Scalars['String']['output']>;
  status: SessionStatus;
  /** Any change moves it; strictly increasing over one user's changes. What synchronisation reads. */
  activeTs: Scalars['Timestamp']['output'];
  /** Only new messages (not SYSTEM ones), pinning and setUnread move it. What the client sorts by. */
  writeTs: Scalars['Timestamp']['output'];
  /** PRIVATE only: how far the other person has received and read. */
  peerDeliveredSeq?: Maybe<Scalars['Int']['output']>;
  peerReadSeq?: Maybe<Scalars['Int']['output']>;
  /** That of a tombstone still answers id, type and last title; a dismissed group answers status DISSOLVED and its last owner. */
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

/** totalUnread: the caller's whole total. cursor: synchronise from here after having shown this page. */
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

/** Stands in the main list for all of the caller's sessions in one subBiz: writeTs and lastMessage are the newest of theirs, unreadCount the sum of those not muted. It can be pinned, muted and read (which reads all of them) like any session. totalUnread counts the sessions inside it once. Its seqs are 0; setUnread, delete and category don't apply (INVALID_INPUT). syncSessions carries it beside the sessions inside. */
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
  /** Session state changes of the caller made on any device, and those made to them (a mute that ended, a group that was dismissed, a membership). Not new messages: nothing but message events changes a session without one of these. First CATCH_UP, in one or more parts (with since: everything missed; else empty), then live, with no gap and no repeat between the two. */
  syncSession: SyncSession;
  /** New, edited and recalled messages, receipts and typing in all the caller's conversations, or in one; the caller's own messages too, for their other devices. With since: first what was missed (messages in order of seq per conversation); then, in any case, CaughtUp; then live, with no gap and no repeat. Of a group one has left: what was missed while a member, CaughtUp, silence. */
  messageEvents: MessageEvent;
};


export type SubscriptionSyncSessionArgs = {
  since?: InputMaybe<Scalars['Cursor']['input']>;
};


export type SubscriptionMessageEventsArgs = {
  since?: InputMaybe<Scalars['Cursor']['input']>;
  conversationId?: InputMaybe<Scalars['ID']['input']>;
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
  | 'CATCH_UP';

/** hasMore: more parts of CATCH_UP follow; false on everything that is live. */
export type SyncSession = {
  __typename: 'SyncSession';
  reason: SyncReason;
  hasMore: Scalars['Boolean']['output'];
  sessions: Array<Session>;
  totalUnread: Scalars['Int']['output'];
  cursor: Scalars['Cursor']['output'];
  reset: Scalars['Boolean']['output'];
};

export type TypingStarted = {
  __typename: 'TypingStarted';
  conversationId: Scalars['ID']['output'];
  at: Scalars['Timestamp']['output'];
  user: User;
};

export type UpdateGroupInput = {
  name?: InputMaybe<Scalars['String']['input']>;
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
  historyVisibility?: InputMaybe<HistoryVisibility>;
};

export type User = Node & {
  __typename: 'User';
  id: Scalars['ID']['output'];
  displayName: Scalars['String']['output'];
  avatarUrl?: Maybe<Scalars['String']['output']>;
  isBot: Scalars['Boolean']['output'];
};

export type UserInput = {
  id: Scalars['ID']['input'];
  displayName: Scalars['String']['input'];
  avatarUrl?: InputMaybe<Scalars['String']['input']>;
  isBot?: InputMaybe<Scalars['Boolean']['input']>;
};
