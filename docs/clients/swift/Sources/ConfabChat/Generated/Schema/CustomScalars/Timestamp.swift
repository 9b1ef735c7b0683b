// The code generator made this file once, and does not overwrite it: edit it.

extension ConfabAPI {
  /// Milliseconds since 1970 on the server's clock.
  typealias Timestamp = Int
}
