import Apollo
import ApolloWebSocket
import Foundation

/// Why an operation has no answer.
struct Failure: Error {
  let message: String
  /// One of the server's error codes, or NETWORK: then a mutation may have been executed. SIGNED_OUT: there are no more answers
  /// until the user signs in again.
  let code: String
  let isRetryable: Bool
  var retryAfter: Duration = .zero

  static func signedOut(_ reason: String) -> Failure {
    Failure(message: reason, code: "SIGNED_OUT", isRetryable: false)
  }

  static func network(_ message: String) -> Failure {
    Failure(message: message, code: "NETWORK", isRetryable: true)
  }

  /// The time to wait before the given attempt (1, 2, …). Half of the back-off is random: clients must not come all at once.
  func wait(before attempt: Int) -> Duration {
    let backOff = min(250 * (1 << min(attempt, 10)), 15_000)
    return retryAfter + .milliseconds(Int(Double(backOff) * Double.random(in: 0.5...1)))
  }
}

extension Failure {
  init(_ errors: [GraphQLError]) {
    // Retryable only if all are.
    let refused = errors.first { $0.extensions?["retryable"] as? Bool != true }
    let extensions = (refused ?? errors.first)?.extensions
    self.init(
      message: (refused ?? errors.first)?.message ?? "The operation was refused.",
      code: extensions?["code"] as? String ?? "INTERNAL",
      isRetryable: extensions?["retryable"] as? Bool == true,
      retryAfter: .milliseconds(extensions?["retryAfterMs"] as? Int ?? 0)
    )
  }

  /// Throws CancellationError if the task was cancelled.
  init(_ error: any Error) throws {
    if Task.isCancelled || error is CancellationError { throw CancellationError() }
    switch error {
    case let failure as Failure: self = failure
    case WebSocketTransport.Error.graphQLErrors(let errors): self.init(errors)
    default: self = .network("The server did not answer.")
    }
  }

  init(closeCode: Int, reason: String) {
    // After these the same client would be refused again.
    let finalCodes: Set = [1002, 1007, 1009, 4400, 4406, 4409, 4429, 4500]
    let isDeviceRemoved = closeCode == 4401
    let isTokenRefused = closeCode == 4403
    let isBanned = isTokenRefused && (reason.hasPrefix("Banned") || reason.hasPrefix("This user is banned"))
    if isDeviceRemoved || isBanned {
      self = .signedOut(reason)
      return
    }
    // A restarting server gives each client its own time to reconnect.
    let asked = reason.firstMatch(of: #/retry in (\d+) ms/#).flatMap { Int($0.1) } ?? 0
    self.init(
      message: "The connection was closed: \(closeCode) \(reason)",
      code: isTokenRefused ? "UNAUTHENTICATED" : "NETWORK",
      isRetryable: !finalCodes.contains(closeCode),
      retryAfter: .milliseconds(asked)
    )
  }
}

/// Repeats `operation` while a retry may help. It must have the same effect if it is executed twice.
func retrying<Answer>(attempts: Int = .max, _ operation: () async throws -> Answer) async throws -> Answer {
  var attempt = 1
  while true {
    do {
      return try await operation()
    } catch {
      let failure = try Failure(error)
      guard failure.isRetryable, attempt < attempts else { throw failure }
      try await Task.sleep(for: failure.wait(before: attempt))
      attempt += 1
    }
  }
}
