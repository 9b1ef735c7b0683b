import ApolloAPI
import Foundation

extension Connection {
  /// Call it in `application(_:didRegisterForRemoteNotificationsWithDeviceToken:)`, at each start of the app.
  func registerPush(deviceToken: Data) async throws {
    let token = deviceToken.map { String(format: "%02x", $0) }.joined()
    try await registerPush(token, platform: .some(.case(.apns)))
  }

  /// Call it before signing out, or the next person gets this user's messages.
  func switchPushOff() async throws {
    try await registerPush("", platform: .none)
  }

  private func registerPush(_ token: String, platform: GraphQLNullable<GraphQLEnum<ConfabAPI.PushPlatform>>) async throws {
    let input = ConfabAPI.DeviceInput(
      id: .some(device.id), type: .case(.mobile), pushPlatform: platform, pushToken: .some(token),
      locale: .some(Locale.current.identifier(.bcp47))
    )
    _ = try await retrying(attempts: 5) { try await mutate(ConfabAPI.RegisterPushMutation(input: input)) }
  }
}
