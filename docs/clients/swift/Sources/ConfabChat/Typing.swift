import Observation

/// The users who are typing, and the signals that this user is.
@MainActor
@Observable
final class Typing {
  struct Typist: Equatable {
    let conversationId: String
    let userId: String
    let name: String
    let since: ContinuousClock.Instant
  }

  private(set) var typists: [Typist] = []
  private let connection: Connection
  private var sent: [String: ContinuousClock.Instant] = [:]
  /// The server passes on one signal in this time.
  private let repeatAfter = Duration.seconds(3)
  /// A signal is shown for this time at most.
  private let shown = Duration.seconds(8)

  init(connection: Connection) {
    self.connection = connection
  }

  /// Call it at each change of the text.
  func pressed(in conversationId: String) async {
    if let last = sent[conversationId], last.duration(to: .now) < repeatAfter { return }
    sent[conversationId] = .now
    // A lost signal is not worth a message to the user: the next key press repeats it.
    _ = try? await connection.mutate(ConfabAPI.StartTypingMutation(conversationId: conversationId))
  }

  /// Call it when the text was emptied.
  func stopped(in conversationId: String) async {
    guard forget(conversationId) else { return }
    _ = try? await connection.mutate(ConfabAPI.StopTypingMutation(conversationId: conversationId))
  }

  /// Call it when the message was sent, which ends typing for others. Returns whether a signal was sent before.
  @discardableResult
  func forget(_ conversationId: String) -> Bool {
    sent.removeValue(forKey: conversationId) != nil
  }

  func show(_ user: ConfabAPI.UserParts, in conversationId: String) {
    hide(user.id, in: conversationId)
    typists.append(Typist(conversationId: conversationId, userId: user.id, name: user.displayName, since: .now))
  }

  func hide(_ userId: String, in conversationId: String) {
    typists.removeAll { $0.conversationId == conversationId && $0.userId == userId }
  }

  /// Removes those whose signal has ended.
  func expire() {
    typists.removeAll { $0.since.duration(to: .now) > shown }
  }
}
