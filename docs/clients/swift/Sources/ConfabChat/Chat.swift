import Foundation
import Observation

/// The state of one signed-in user. `run` keeps it equal to the server's while the app is on the screen, and resumes where it ended.
@MainActor
@Observable
final class Chat {
  private(set) var totalUnread = 0
  private(set) var workspaces: [ConfabAPI.FirstScreenQuery.Data.Ready.Workspace] = []
  private(set) var myId: String?
  private(set) var isLoaded = false
  var hasMore: Bool { olderSessions != nil }
  let typing: Typing
  let connection: Connection

  private let outboxFile: URL
  private var byConversation: [String: ConfabAPI.SessionParts] = [:]
  private var acknowledged: [String: Int] = [:]
  @ObservationIgnored var histories: [History] = [] // those on the screen
  private var olderSessions: String?

  // The positions that have been applied: of the queries, and of each subscription.
  private var queryCursor: String?
  private var sessionCursor: String?
  @ObservationIgnored var messageCursor: String?

  let pulls = Signal()
  @ObservationIgnored var mustStartOver = true
  /// The most marks of one AckDelivered.
  private let mostMarks = 200

  init(connection: Connection, outboxFile: URL) {
    self.connection = connection
    self.outboxFile = outboxFile
    typing = Typing(connection: connection)
  }

  @ObservationIgnored
  private(set) lazy var outbox = Outbox(file: outboxFile, connection: connection) { [unowned self] answer in
    isShown(answer)
  }

  /// In display order.
  var sessions: [ConfabAPI.SessionParts] {
    byConversation.values
      .filter { $0.status == .active && $0.subBiz == nil && $0.conversation.type != .channel }
      .sorted { ($0.priority, $0.writeTs) > ($1.priority, $1.writeTs) }
  }

  /// Runs until it is cancelled, or throws a Failure that a retry cannot help, such as SIGNED_OUT.
  func run() async throws {
    do {
      if mustStartOver { try await loadFirstScreen() }
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await self.keepPulling() }
        group.addTask { try await self.outbox.run() }
        group.addTask {
          try await self.connection.follow { ConfabAPI.SessionEventsSubscription(since: self.sessionCursor.orAbsent) } apply: {
            self.apply($0.syncSession)
          }
        }
        group.addTask {
          try await self.connection.follow { ConfabAPI.MessageEventsSubscription(since: self.messageCursor.orAbsent) } apply: {
            self.apply($0.messageEvents)
          }
        }
        try await group.waitForAll()
      }
    } catch {
      await connection.disconnect()
      throw error
    }
  }

  /// Fetches the sessions after the last one of the list.
  func loadMoreSessions() async throws {
    guard let after = olderSessions else { return }
    let page = try await retrying(attempts: 5) {
      try await connection.query(ConfabAPI.MoreSessionsQuery(after: .some(after))).sessions
    }
    guard olderSessions == after else { return } // started over meanwhile
    olderSessions = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : nil
    apply(page.edges.map(\.node.fragments.sessionParts))
  }

  func open(_ conversationId: String) -> History {
    History(conversationId: conversationId, connection: connection) { [outbox] messages in
      outbox.confirmStored(in: conversationId)
      for key in messages.compactMap(\.key) { outbox.confirm(key) }
    }
  }

  /// Keeps a history up to date while it is on the screen. Runs until it is cancelled.
  func watch(_ history: History) async throws {
    histories.append(history)
    defer { histories.removeAll { $0 === history } }
    let hasOwnEvents = Self.hasOwnEvents(history.conversationId)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await history.keepLoaded(startNow: !hasOwnEvents) }
      if hasOwnEvents { group.addTask { try await self.followChannel(history) } }
      try await group.waitForAll()
    }
  }

  /// Shows the message at once, and sends it when it can.
  ///
  /// - Parameter threadOf: the message in whose thread it is to be the first reply.
  func send(_ text: String, to conversationId: String, attachmentIds: [String] = [], threadOf: String? = nil) {
    typing.forget(conversationId)
    outbox.send(text, to: conversationId, attachmentIds: attachmentIds, threadOf: threadOf)
  }

  /// Call it when the newest message is on the screen. It does nothing if there is nothing to read.
  func markRead(_ conversationId: String, upTo seq: Int) async throws {
    if let session = byConversation[conversationId], session.readSeq >= seq, !session.unreadStatus { return }
    let read = try await retrying(attempts: 5) {
      try await connection.mutate(ConfabAPI.MarkReadMutation(conversationId: conversationId, upToSeq: .some(Int32(seq)))).markRead
    }
    apply([read.fragments.sessionParts])
  }

  private func loadFirstScreen() async throws {
    let screen = try await retrying { try await connection.query(ConfabAPI.FirstScreenQuery()).ready }
    mustStartOver = false
    queryCursor = screen.cursor
    // After a reset the subscriptions go on from where they are.
    sessionCursor = sessionCursor ?? screen.cursor
    messageCursor = messageCursor ?? screen.cursor
    olderSessions = screen.sessions.pageInfo.hasNextPage ? screen.sessions.pageInfo.endCursor : nil
    byConversation = [:]
    totalUnread = screen.sessions.totalUnread
    workspaces = screen.workspaces
    myId = screen.me.fragments.userParts.id
    isLoaded = true
    apply(screen.sessions.edges.map(\.node.fragments.sessionParts))
    try await acknowledge()
  }

  /// Fetches the sessions that have changed since the last time, once for many events.
  private func keepPulling() async throws {
    for await _ in pulls.signals(startNow: true) {
      if mustStartOver { try await loadFirstScreen() }
      var hasMore = true
      while hasMore {
        let page = try await retrying {
          try await connection.query(ConfabAPI.ChangedSessionsQuery(since: queryCursor.orAbsent)).syncSessions
        }
        if page.reset { byConversation = [:] }
        queryCursor = page.cursor
        totalUnread = page.totalUnread
        apply(page.sessions.map(\.fragments.sessionParts))
        hasMore = page.hasMore
      }
      try await acknowledge()
    }
  }

  /// Messages that this device knows are delivered.
  private func acknowledge() async throws {
    var due = byConversation.values.filter {
      $0.status == .active && $0.writeSeq > max($0.deliveredSeq, acknowledged[$0.conversation.id] ?? 0)
    }
    while !due.isEmpty {
      let part = due.prefix(mostMarks)
      due = Array(due.dropFirst(mostMarks))
      for session in part { acknowledged[session.conversation.id] = session.writeSeq }
      let marks = part.map {
        ConfabAPI.DeliveryMark(conversationId: $0.conversation.id, upToSeq: Int32($0.writeSeq))
      }
      do {
        let answer = try await retrying { try await connection.mutate(ConfabAPI.AckDeliveredMutation(marks: marks)) }
        apply(answer.ackManyDelivered.map(\.fragments.sessionParts))
      } catch {
        let failure = try Failure(error)
        if failure.code == "SIGNED_OUT" { throw failure } // others concern these messages only
      }
    }
  }

  func apply(_ sessions: [ConfabAPI.SessionParts]) {
    for session in sessions {
      let held = byConversation[session.conversation.id]
      // Answers may arrive in another order than their requests.
      if (held?.activeTs ?? 0) <= session.activeTs { byConversation[session.conversation.id] = session }
    }
  }

  private func apply(_ change: ConfabAPI.SessionEventsSubscription.Data.SyncSession) {
    let changed = change.sessions.map(\.fragments.sessionParts)
    apply(changed)
    if change.reset { mustStartOver = true }
    // A user who rejoins a group may read messages from the time in between, which had no events.
    if change.reason == .membership {
      let ids = Set(changed.map(\.conversation.id))
      histories.filter { ids.contains($0.conversationId) }.forEach { $0.reload() }
    }
    sessionCursor = change.cursor
    pulls.send()
  }
}
