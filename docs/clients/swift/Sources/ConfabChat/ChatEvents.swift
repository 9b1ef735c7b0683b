import ApolloAPI

/// How events change the state.
extension Chat {
  /// Channels and threads are followed one by one. Everything else comes with MessageEvents.
  static func hasOwnEvents(_ conversationId: String) -> Bool {
    conversationId.hasPrefix("c_") || conversationId.hasPrefix("t_")
  }

  func apply(_ event: ConfabAPI.MessageEventsSubscription.Data.MessageEvents) {
    let pushed = histories.filter { !Self.hasOwnEvents($0.conversationId) }
    if let created = event.asMessageCreated {
      add(Message(created.message.fragments.messageParts), to: pushed)
    }
    if let parts = event.asMessageUpdated?.message.fragments.messageParts ?? event.asMessageRecalled?.message.fragments.messageParts {
      pushed.filter { $0.conversationId == parts.conversationId }.forEach { $0.apply(.revised(Message(parts))) }
    }
    if let change = event.asThreadChanged {
      let replied = Change.replied(parentId: change.parentId, threadId: change.thread.id, replyCount: change.thread.replyCount)
      pushed.forEach { $0.apply(replied) }
    }
    if let started = event.asTypingStarted { typing.show(started.user.fragments.userParts, in: started.conversationId) }
    if let stopped = event.asTypingStopped { typing.hide(stopped.user.id, in: stopped.conversationId) }
    if event.asCaughtUp?.reset == true {
      mustStartOver = true
      pushed.forEach { $0.reload() }
    }
    // Without a cursor: typing, which changes no session.
    guard let cursor = Self.cursor(of: event) else { return }
    messageCursor = cursor
    pulls.send()
  }

  private static func cursor(of event: ConfabAPI.MessageEventsSubscription.Data.MessageEvents) -> String? {
    let cursors = [
      event.asMessageCreated?.cursor, event.asMessageUpdated?.cursor, event.asMessageRecalled?.cursor, event.asThreadChanged?.cursor,
      event.asReceiptAdvanced?.cursor, event.asReactionsChanged?.cursor, event.asPinsChanged?.cursor, event.asGroupChanged?.cursor,
      event.asMentioned?.cursor, event.asCaughtUp?.cursor,
    ]
    return cursors.lazy.compactMap { $0 }.first
  }

  /// Runs until it is cancelled, or until the history can no longer be followed.
  func followChannel(_ history: History) async throws {
    do {
      try await connection.follow {
        let position = ConfabAPI.Position(id: history.conversationId, rev: history.rev.orAbsent)
        return ConfabAPI.ChannelEventsSubscription(channels: [position])
      } apply: { data in
        let event = data.channelEvents
        if let change = event.asChannelMessage {
          let message = Message(change.message.fragments.messageParts)
          if change.change == .created { self.add(message, to: [history]) } else { history.apply(.revised(message)) }
        }
        if let change = event.asChannelThread {
          history.apply(.replied(parentId: change.parentId, threadId: change.thread.id, replyCount: change.thread.replyCount))
        }
        if let started = event.asTypingStarted { self.typing.show(started.user.fragments.userParts, in: started.conversationId) }
        if let stopped = event.asTypingStopped { self.typing.hide(stopped.user.id, in: stopped.conversationId) }
        if let caughtUp = event.asChannelCaughtUp, caughtUp.reset || !history.isContinuous { history.reload() }
        if event.asAccessEnded != nil {
          throw Failure(message: "You can no longer read this conversation.", code: "NOT_FOUND", isRetryable: false)
        }
        history.rev = event.asChannelMessage?.rev ?? event.asChannelThread?.rev ?? event.asChannelCaughtUp?.rev ?? history.rev
      }
    } catch {
      history.fail(try Failure(error))
    }
  }

  private func add(_ message: Message, to targets: [History]) {
    targets.filter { $0.conversationId == message.conversationId }.forEach { $0.apply(.stored(message)) }
    if let key = message.key { outbox.confirm(key) }
    typing.hide(message.senderId, in: message.conversationId)
  }

  /// Whether a message of the outbox, which the server has just stored, is shown by its history, so that the outbox can remove it.
  func isShown(_ answer: ConfabAPI.SendMessageMutation.Data.SendMessage) -> Bool {
    apply([answer.session.fragments.sessionParts])
    let message = Message(answer.message.fragments.messageParts)
    let open = histories.filter { $0.conversationId == message.conversationId }
    return open.isEmpty || open.contains { $0.append(message) }
  }
}

extension Optional where Wrapped: Sendable {
  /// For arguments: nil means that the argument is left out.
  var orAbsent: GraphQLNullable<Wrapped> {
    switch self {
    case .some(let value): .some(value)
    case .none: .none
    }
  }
}
