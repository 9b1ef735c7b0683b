import SwiftUI

/// A private conversation, group, channel or thread.
struct ConversationView: View {
  let chat: Chat
  let conversationId: String
  @State private var history: History
  @State private var replyTo: Message?
  @Environment(\.scenePhase) private var scenePhase

  init(chat: Chat, conversationId: String) {
    self.chat = chat
    self.conversationId = conversationId
    _history = State(initialValue: chat.open(conversationId))
  }

  var body: some View {
    VStack(spacing: 0) {
      if let failure = history.failure { Text(failure).padding() }
      ScrollView {
        LazyVStack(alignment: .leading, spacing: 8) {
          if history.hasOlder {
            // A failure leaves the button there.
            Button("Earlier messages") { Task { try? await history.loadOlder() } }
          }
          ForEach(history.messages) { message in
            MessageRow(message: message, chat: chat) { replyTo = message }
          }
          ForEach(pending) { UnsentRow(item: $0, outbox: chat.outbox) }
        }
        .padding()
      }
      .defaultScrollAnchor(.bottom)
      .overlay { if !history.isLoaded && history.failure == nil { ProgressView() } }
      TypingLine(typing: chat.typing, conversationId: conversationId)
      Composer(chat: chat, conversationId: conversationId, replyTo: $replyTo)
    }
    .toolbar {
      if !conversationId.hasPrefix("t_") { // threads do not nest
        NavigationLink("Threads") { ThreadListView(chat: chat, conversationId: conversationId) }
      }
    }
    .task(id: scenePhase == .background) {
      // It ends when the view disappears and when the app goes to the background.
      if scenePhase != .background { try? await chat.watch(history) }
    }
    .task(id: ReadMark(seq: history.messages.last?.seq, isActive: scenePhase == .active)) {
      guard scenePhase == .active, let seq = history.messages.last?.seq else { return }
      try? await chat.markRead(conversationId, upTo: seq) // the next message, or the next look at it, repeats it
    }
  }

  /// A message that is stored and still in the outbox has the same key in both.
  private var pending: [Unsent] {
    let shown = Set(history.messages.compactMap(\.key))
    return chat.outbox.items.filter { $0.conversationId == conversationId && !shown.contains($0.key) }
  }
}

private struct ReadMark: Equatable {
  let seq: Int?
  let isActive: Bool
}

private struct MessageRow: View {
  let message: Message
  let chat: Chat
  let reply: () -> Void

  var body: some View {
    VStack(alignment: .leading) {
      if !message.isSystem { Text(message.author).font(.caption).foregroundStyle(.secondary) }
      Text(text)
      ForEach(message.attachments, id: \.id) { Text($0.description ?? $0.filename) }
      if isReadByPeer { Text("Read").font(.caption).foregroundStyle(.secondary) }
      if let threadId = message.threadId {
        NavigationLink("Replies: \(message.replyCount)", value: threadId)
      } else if !message.conversationId.hasPrefix("t_"), !message.isSystem, !message.isRecalled {
        Button("Reply in a thread", action: reply).font(.caption)
      }
    }
  }

  private var text: String {
    message.isRecalled ? "Message recalled" : (message.text ?? "") + (message.isEdited ? " (edited)" : "")
  }

  /// Private conversations only: elsewhere peerReadSeq is nil.
  private var isReadByPeer: Bool {
    let session = chat.sessions.first { $0.conversation.id == message.conversationId }
    return message.senderId == chat.myId && message.seq <= session?.peerReadSeq ?? 0
  }
}

private struct UnsentRow: View {
  let item: Unsent
  let outbox: Outbox

  var body: some View {
    VStack(alignment: .leading) {
      Text(item.text)
      if let failure = item.failure {
        Text(failure).foregroundStyle(.red)
        HStack {
          Button("Try again") { outbox.retry(item.key) }
          Button("Discard", role: .destructive) { outbox.discard(item.key) }
        }
      } else {
        Text("Sending").font(.caption).foregroundStyle(.secondary)
      }
    }
  }
}

private struct TypingLine: View {
  let typing: Typing
  let conversationId: String

  var body: some View {
    let names = typing.typists.filter { $0.conversationId == conversationId }.map(\.name)
    Text(text(names))
      .font(.caption)
      .task {
        while !Task.isCancelled {
          typing.expire()
          try? await Task.sleep(for: .seconds(1))
        }
      }
  }

  private func text(_ names: [String]) -> String {
    switch names.count {
    case 0: ""
    case 1...3: names.formatted(.list(type: .and)) + (names.count == 1 ? " is typing" : " are typing")
    default: "Several people are typing"
    }
  }
}
