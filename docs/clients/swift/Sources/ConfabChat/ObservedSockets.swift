import ApolloWebSocket
import Foundation
import os

/// Opens WebSockets, and keeps why the last one was closed: Apollo does not pass that on.
final class ObservedSockets: WebSocketURLSession {
  private let closing = OSAllocatedUnfairLock<Failure?>(initialState: nil)

  /// Why the last connection has ended.
  var failure: Failure {
    closing.withLock { $0 } ?? .network("The connection was lost.")
  }

  func webSocketTask(with request: URLRequest) -> any WebSocketTask {
    closing.withLock { $0 = nil }
    let task: URLSessionWebSocketTask = URLSession.shared.webSocketTask(with: request)
    return ObservedTask(task: task, closing: closing)
  }
}

private struct ObservedTask: WebSocketTask {
  let task: URLSessionWebSocketTask
  let closing: OSAllocatedUnfairLock<Failure?>

  func receive() async throws -> URLSessionWebSocketTask.Message {
    // The server answers Apollo's pings, so a connection without any message for long is dead.
    let watchdog = Task {
      try await Task.sleep(for: .seconds(25))
      task.cancel(with: .goingAway, reason: nil)
    }
    defer { watchdog.cancel() }
    do {
      return try await task.receive()
    } catch {
      if task.closeCode != .invalid { // invalid: it was lost without a close code
        let reason = task.closeReason.map { String(decoding: $0, as: UTF8.self) } ?? ""
        let failure = Failure(closeCode: task.closeCode.rawValue, reason: reason)
        closing.withLock { $0 = failure }
      }
      throw error
    }
  }

  func resume() {
    task.resume()
  }

  func send(_ message: URLSessionWebSocketTask.Message) async throws {
    try await task.send(message)
  }

  func cancel(with closeCode: URLSessionWebSocketTask.CloseCode, reason: Data?) {
    task.cancel(with: closeCode, reason: reason)
  }
}
