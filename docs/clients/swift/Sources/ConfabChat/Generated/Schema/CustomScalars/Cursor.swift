// The code generator made this file once, and does not overwrite it: edit it.

extension ConfabAPI {
  /// A position on the user's clock, opaque to clients.
  typealias Cursor = String
}
