import Observation

/// The messages of one conversation from some point to the newest, in order of seq and without gaps: pages of the past, and what
/// events add.
@MainActor
@Observable
final class History {
  let conversationId: String
  private(set) var messages: [Message] = []
  private(set) var isLoaded = false
  private(set) var failure: String?
  var hasOlder: Bool { olderCursor != nil }

  private let connection: Connection
  private let loaded: ([Message]) -> Void
  private let reloads = Signal()
  private var olderCursor: String?
  private var epoch = 0
  /// Nothing is missing between the messages and the next event.
  @ObservationIgnored private(set) var isContinuous = false
  /// Of a channel or thread: the position of the last event that was applied.
  @ObservationIgnored var rev: Int?
  /// Changes that arrived while a page was being fetched, which may be older than they. Nil: none is being fetched.
  private var meanwhile: [Change]?

  init(conversationId: String, connection: Connection, loaded: @escaping ([Message]) -> Void) {
    self.conversationId = conversationId
    self.connection = connection
    self.loaded = loaded
  }

  /// Asks `keepLoaded` to fetch the newest page: too many events were missed.
  func reload() {
    isContinuous = false
    reloads.send()
  }

  /// Runs until it is cancelled.
  func keepLoaded(startNow: Bool) async throws {
    if startNow { isContinuous = false }
    for await _ in reloads.signals(startNow: startNow) {
      do {
        try await loadNewest()
      } catch {
        fail(try Failure(error))
      }
    }
  }

  func fail(_ failure: Failure) {
    self.failure = failure.message
  }

  private func loadNewest() async throws {
    epoch += 1
    let begun = epoch
    meanwhile = []
    defer { if epoch == begun { meanwhile = nil } }
    let page = try await retrying {
      try await connection.query(ConfabAPI.HistoryQuery(conversationId: conversationId, before: nil)).messages
    }
    // There is no page of a conversation without messages, and it begins with the first event.
    messages = page?.edges.map { Message($0.node.fragments.messageParts) } ?? []
    olderCursor = page.flatMap { $0.pageInfo.hasPreviousPage ? $0.pageInfo.startCursor : nil }
    isContinuous = true
    for change in meanwhile ?? [] { merge(change) }
    isLoaded = true
    failure = nil
    loaded(messages)
  }

  /// Fetches the page before the oldest message.
  func loadOlder() async throws {
    guard let before = olderCursor, meanwhile == nil else { return }
    let begun = epoch
    meanwhile = []
    defer { if epoch == begun { meanwhile = nil } }
    let page = try await retrying(attempts: 5) {
      try await connection.query(ConfabAPI.HistoryQuery(conversationId: conversationId, before: .some(before))).messages
    }
    // If the newest page was fetched meanwhile, this one is not next to it any more.
    guard epoch == begun, let page else { return }
    let older = page.edges.map { Message($0.node.fragments.messageParts) }
    let first = messages.first?.seq ?? .max
    messages = older.filter { $0.seq < first } + messages
    olderCursor = page.pageInfo.hasPreviousPage ? page.pageInfo.startCursor : nil
    for change in meanwhile ?? [] { merge(change) }
  }

  func apply(_ change: Change) {
    meanwhile?.append(change)
    if isContinuous { merge(change) }
  }

  /// Adds the answer of a mutation, if nothing can be missing before it. Otherwise its event adds it. Returns whether it is there.
  func append(_ message: Message) -> Bool {
    guard isContinuous else { return false }
    let isNext = messages.last.map { message.seq == $0.seq + 1 } ?? (olderCursor == nil && message.seq == 1)
    if isNext { apply(.stored(message)) }
    return isNext || messages.contains { $0.seq == message.seq }
  }

  private func merge(_ change: Change) {
    switch change {
    case .stored(let message):
      // Missed messages arrive in order. A page may have their end already: their beginning comes with older pages.
      if let first = messages.first, olderCursor != nil, message.seq < first.seq { return }
      let place = messages.lastIndex { $0.seq <= message.seq }
      if let place, messages[place].seq == message.seq { return }
      messages.insert(message, at: place.map { $0 + 1 } ?? 0)
    case .revised(let message):
      if let place = messages.lastIndex(where: { $0.seq == message.seq }) { messages[place] = message }
    case .replied(let parentId, let threadId, let replyCount):
      if let place = messages.lastIndex(where: { $0.id == parentId }) {
        messages[place].threadId = threadId
        messages[place].replyCount = replyCount
      }
    }
  }
}
