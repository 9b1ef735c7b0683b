// The code generator made this file once, and does not overwrite it: edit it.

@_spi(Internal) import ApolloAPI

extension ConfabAPI {
  /// Any JSON value.
  struct JSON: CustomScalarType {
    let value: JSONValue

    init(_jsonValue value: JSONValue) throws {
      self.value = value
    }

    var _jsonValue: JSONValue { value }

    static func == (one: JSON, other: JSON) -> Bool {
      AnyHashable(one.value) == AnyHashable(other.value)
    }

    func hash(into hasher: inout Hasher) {
      hasher.combine(AnyHashable(value))
    }
  }
}
