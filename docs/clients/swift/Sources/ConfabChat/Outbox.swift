import Foundation
import Observation

struct Unsent: Codable, Identifiable, Equatable {
  /// The idempotencyKey of all attempts.
  let key: String
  /// Where it is shown.
  let conversationId: String
  /// The message in whose thread it is written, if it is to begin that thread.
  let threadOf: String?
  let text: String
  let attachmentIds: [String]
  var writtenAt: Date
  /// Why it was not stored; nil while it waits.
  var failure: String?
  /// The server has it, and its event has not arrived yet.
  var isStored = false

  var id: String { key }
  var isWaiting: Bool { failure == nil && !isStored }
}

/// Messages that the server has not stored yet. They are in a file before they are sent, and survive the end of the app. Messages
/// of one conversation are sent one after the other. Each is stored once, however often it is sent.
@MainActor
@Observable
final class Outbox {
  private(set) var items: [Unsent]

  private let file: URL
  private let connection: Connection
  private let stored: (ConfabAPI.SendMessageMutation.Data.SendMessage) -> Bool
  private let wake = Signal()
  private var sending: Set<String> = []
  /// The server remembers a key for 24 hours. A later attempt might store the message twice, so the author decides.
  private let keyLasts: TimeInterval = 23 * 3600

  /// - Parameter stored: called with each answer. It returns whether the message is shown without the outbox now.
  init(file: URL, connection: Connection, stored: @escaping (ConfabAPI.SendMessageMutation.Data.SendMessage) -> Bool) {
    self.file = file
    self.connection = connection
    self.stored = stored
    let saved = try? JSONDecoder().decode([Unsent].self, from: Data(contentsOf: file))
    items = saved ?? [] // no file yet, or one of another version
  }

  func send(_ text: String, to conversationId: String, attachmentIds: [String], threadOf: String?) {
    let item = Unsent(
      key: UUID().uuidString, conversationId: conversationId, threadOf: threadOf, text: text, attachmentIds: attachmentIds,
      writtenAt: .now
    )
    replace(items + [item])
    wake.send()
  }

  /// With the same key: if an earlier attempt stored the message, it is not stored again.
  func retry(_ key: String) {
    change(key) {
      $0.failure = nil
      $0.writtenAt = .now
    }
    wake.send()
  }

  func discard(_ key: String) {
    replace(items.filter { $0.key != key || $0.failure == nil })
  }

  /// The message is shown by its history. The event may arrive before the answer of the mutation, or without one.
  func confirm(_ key: String) {
    if items.contains(where: { $0.key == key }) { replace(items.filter { $0.key != key }) }
  }

  /// A page of the history was fetched, which has all that was stored before.
  func confirmStored(in conversationId: String) {
    replace(items.filter { $0.conversationId != conversationId || !$0.isStored })
  }

  /// Runs until it is cancelled.
  func run() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for await _ in wake.signals(startNow: true) {
        for conversationId in Set(items.filter(\.isWaiting).map(\.conversationId)) {
          group.addTask { try await self.sendAll(in: conversationId) }
        }
      }
    }
  }

  private func sendAll(in conversationId: String) async throws {
    guard sending.insert(conversationId).inserted else { return }
    defer { sending.remove(conversationId) }
    var attempt = 1
    while let next = items.first(where: { $0.conversationId == conversationId && $0.isWaiting }) {
      if Date.now.timeIntervalSince(next.writtenAt) > keyLasts {
        change(next.key) { $0.failure = "This message has waited for a day." }
        continue
      }
      do {
        let answer = try await connection.mutate(ConfabAPI.SendMessageMutation(input: input(next))).sendMessage
        change(next.key) { $0.isStored = true }
        if stored(answer) { confirm(next.key) }
        attempt = 1
      } catch {
        let failure = try Failure(error)
        // A refused token says nothing about the message.
        if failure.isRetryable || failure.code == "UNAUTHENTICATED" || failure.code == "SIGNED_OUT" {
          try await Task.sleep(for: failure.wait(before: attempt))
          attempt += 1
        } else {
          change(next.key) { $0.failure = failure.message }
        }
      }
    }
  }

  private func input(_ item: Unsent) -> ConfabAPI.SendMessageInput {
    ConfabAPI.SendMessageInput(
      conversationId: item.threadOf == nil ? .some(item.conversationId) : .none,
      threadOf: item.threadOf.orAbsent,
      content: item.text,
      attachmentIds: .some(item.attachmentIds),
      idempotencyKey: .some(item.key)
    )
  }

  private func change(_ key: String, _ change: (inout Unsent) -> Void) {
    var changed = items
    for place in changed.indices where changed[place].key == key { change(&changed[place]) }
    replace(changed)
  }

  private func replace(_ changed: [Unsent]) {
    guard changed != items else { return }
    items = changed
    // If the disk is full, messages are sent nevertheless: they are in memory.
    try? JSONEncoder().encode(items.filter { !$0.isStored }).write(to: file, options: .atomic)
  }
}
