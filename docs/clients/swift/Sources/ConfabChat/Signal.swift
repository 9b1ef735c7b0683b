/// Wakes a loop. Several calls of `send` before it wakes count as one.
@MainActor
final class Signal {
  private var continuation: AsyncStream<Void>.Continuation?

  func send() {
    continuation?.yield()
  }

  /// For one loop at a time. Signals sent before this call are lost, so most loops start with one.
  func signals(startNow: Bool) -> AsyncStream<Void> {
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    self.continuation = continuation
    if startNow { continuation.yield() }
    return stream
  }
}
