// The code generator made this file once, and does not overwrite it: edit it.

extension ConfabAPI {
  /// ISO 8601 in UTC with milliseconds.
  typealias DateTime = String
}
