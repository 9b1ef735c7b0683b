import Apollo
import ApolloAPI
import ApolloWebSocket
import Foundation

/// The source of tokens: your sign-in service.
protocol Tokens: Sendable {
  /// Returns a token that is valid for at least a minute, from memory where possible. Nil: the user has to sign in again.
  /// Throws if there is none at the moment.
  ///
  /// - Parameter refused: a token that the server no longer accepts although it has not expired.
  func token(refused: String?) async throws -> String?
}

/// This device, as its user finds it in the list of their devices. Keep the id (1 to 64 characters) as long as the app is installed.
struct Device: Sendable {
  let id: String
}

/// The connection to the server: HTTP for queries and mutations, and one WebSocket for all subscriptions.
actor Connection {
  nonisolated let device: Device
  private let token: CurrentToken
  private let sockets = ObservedSockets()
  private let socket: WebSocketTransport
  private let apollo: ApolloClient
  private let uncached = RequestConfiguration(writeResultsToCache: false)
  /// A connection of this length was no failure.
  private let steady = Duration.seconds(10)

  init(url: URL, socketURL: URL, device: Device, tokens: any Tokens) {
    let store = ApolloStore(cache: InMemoryNormalizedCache())
    self.device = device
    token = CurrentToken(tokens)
    // Without Apollo's own reconnecting: it would repeat the first token, and all events since the first cursor.
    let configuration = WebSocketTransport.Configuration(pingInterval: 10)
    socket = WebSocketTransport(urlSession: sockets, store: store, endpointURL: socketURL, configuration: configuration)
    let http = RequestChainNetworkTransport(
      urlSession: URLSession.shared, interceptorProvider: AuthorizedRequests(token: token), store: store, endpointURL: url
    )
    let transport = SplitNetworkTransport(queryTransport: http, mutationTransport: http, subscriptionTransport: socket)
    apollo = ApolloClient(networkTransport: transport, store: store)
  }

  func query<Query: GraphQLQuery>(_ query: Query) async throws -> Query.Data where Query.ResponseFormat == SingleResponseFormat {
    try await answer { try await apollo.fetch(query: query, cachePolicy: .networkOnly, requestConfiguration: uncached) }
  }

  func mutate<Mutation: GraphQLMutation>(_ mutation: Mutation) async throws -> Mutation.Data
  where Mutation.ResponseFormat == SingleResponseFormat {
    try await answer { try await apollo.perform(mutation: mutation, requestConfiguration: uncached) }
  }

  /// Passes on the events of a subscription, across all disconnects. Ends when the task is cancelled, or with a Failure that a
  /// retry cannot help.
  ///
  /// - Parameter subscription: called for each connection. It returns the subscription from after the last event that was applied.
  func follow<Subscription: GraphQLSubscription>(
    _ subscription: @MainActor @Sendable () -> Subscription,
    apply: @MainActor @Sendable (Subscription.Data) throws -> Void
  ) async throws -> Never {
    var attempt = 0
    while true {
      let begun = ContinuousClock.now
      let failure: Failure
      do {
        try await connect()
        let events = try apollo.subscribe(
          subscription: await subscription(), cachePolicy: .networkOnly, requestConfiguration: uncached
        )
        for try await event in events {
          try await apply(data(of: event))
        }
        try Task.checkCancellation()
        failure = sockets.failure
      } catch {
        failure = try reason(error)
      }
      guard failure.isRetryable else { throw failure }
      if failure.code == "UNAUTHENTICATED" { await token.refuse() }
      // A server that accepts and closes at once is asked less and less often.
      attempt = begun.duration(to: .now) > steady ? 1 : attempt + 1
      try await Task.sleep(for: failure.wait(before: attempt))
    }
  }

  /// Closes the WebSocket, for example when the app goes to the background. The next subscription opens it again.
  func disconnect() async {
    await socket.pause()
  }

  /// Each connection begins with a valid token.
  private func connect() async throws {
    let token = try await token.value()
    await socket.updateConnectingPayload(
      ["Authorization": "Bearer \(token)", "deviceId": device.id, "deviceType": "MOBILE"]
    )
    await socket.resume()
  }

  /// When its connection is closed, a stream ends without saying why.
  private func reason(_ error: any Error) throws -> Failure {
    let failure = try Failure(error)
    return error is Failure || failure.code != "NETWORK" ? failure : sockets.failure
  }

  private func answer<Operation>(_ ask: () async throws -> GraphQLResponse<Operation>) async throws -> Operation.Data {
    do {
      return try data(of: try await ask())
    } catch {
      let failure = try Failure(error)
      guard failure.code == "UNAUTHENTICATED" else { throw failure }
      await token.refuse()
    }
    do {
      return try data(of: try await ask())
    } catch {
      throw try Failure(error)
    }
  }

  private func data<Operation>(of response: GraphQLResponse<Operation>) throws -> Operation.Data {
    if let errors = response.errors, !errors.isEmpty { throw Failure(errors) }
    guard let data = response.data else {
      throw Failure(message: "The answer is empty.", code: "INTERNAL", isRetryable: false)
    }
    return data
  }
}

/// The token that was sent last.
private actor CurrentToken {
  private let tokens: any Tokens
  private var shown: String?
  private var refused: String?

  init(_ tokens: any Tokens) {
    self.tokens = tokens
  }

  func value() async throws -> String {
    do {
      shown = try await tokens.token(refused: refused)
    } catch {
      throw Task.isCancelled ? CancellationError() : Failure.network("There is no token: \(error.localizedDescription)")
    }
    guard let shown else { throw Failure.signedOut("You have been signed out.") }
    return shown
  }

  func refuse() {
    refused = shown
  }
}

private struct AuthorizedRequests: InterceptorProvider {
  let token: CurrentToken

  /// Retrying is left to `retrying`, which knows what may be repeated.
  func graphQLInterceptors<Operation: GraphQLOperation>(for operation: Operation) -> [any GraphQLInterceptor] {
    []
  }

  /// Without ResponseCodeInterceptor: an answer with another status than 200 has its GraphQL errors in the body.
  func httpInterceptors<Operation: GraphQLOperation>(for operation: Operation) -> [any HTTPInterceptor] {
    [Authorization(token: token)]
  }
}

private struct Authorization: HTTPInterceptor {
  let token: CurrentToken

  func intercept(request: URLRequest, next: NextHTTPInterceptorFunction) async throws -> HTTPResponse {
    var request = request
    request.setValue("Bearer \(try await token.value())", forHTTPHeaderField: "Authorization")
    return try await next(request)
  }
}
