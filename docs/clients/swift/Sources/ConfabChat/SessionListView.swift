import SwiftUI

/// The sessions of the user, and the channels that they follow.
struct SessionListView: View {
  let chat: Chat
  let signedOut: (String) -> Void
  @State private var channels: [ConfabAPI.FollowedChannelsQuery.Data.FollowedChannels.Edge.Node] = []
  @Environment(\.scenePhase) private var scenePhase

  var body: some View {
    NavigationStack {
      List {
        ForEach(chat.sessions, id: \.id) { session in
          NavigationLink(value: session.conversation.id) { SessionRow(session: session) }
        }
        if chat.hasMore {
          // Appears when the end of the list comes onto the screen. A failure is tried again with the next look at it.
          ProgressView().task(id: chat.sessions.count) { try? await chat.loadMoreSessions() }
        }
        Section("Channels") {
          ForEach(channels, id: \.id) { channel in
            NavigationLink(value: channel.id) {
              Text("# \(channel.name)").badge(channel.messageCount - (channel.session?.readCount ?? channel.messageCount))
            }
          }
        }
      }
      .overlay { if !chat.isLoaded { ProgressView() } }
      .navigationTitle("Chats")
      .navigationDestination(for: String.self) { ConversationView(chat: chat, conversationId: $0) }
    }
    .task(id: scenePhase == .background) {
      guard scenePhase != .background else { return }
      do {
        try await chat.run()
      } catch {
        if let failure = try? Failure(error) { signedOut(failure.message) }
      }
    }
    .task(id: chat.workspaces.map(\.id)) {
      // If it fails, the list is fetched again with the next first screen.
      if let found = try? await followedChannels() { channels = found }
    }
  }

  private func followedChannels() async throws -> [ConfabAPI.FollowedChannelsQuery.Data.FollowedChannels.Edge.Node] {
    var found: [ConfabAPI.FollowedChannelsQuery.Data.FollowedChannels.Edge.Node] = []
    for workspace in chat.workspaces {
      var after: String?
      repeat {
        let query = ConfabAPI.FollowedChannelsQuery(workspaceId: workspace.id, after: after.orAbsent)
        let page = try await retrying(attempts: 5) { try await chat.connection.query(query).followedChannels }
        found += page.edges.map(\.node)
        after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : nil
      } while after != nil
    }
    return found
  }
}

private struct SessionRow: View {
  let session: ConfabAPI.SessionParts

  var body: some View {
    VStack(alignment: .leading) {
      Text(session.conversation.title)
      if let message = session.lastMessage {
        Text(preview(message)).font(.subheadline).foregroundStyle(.secondary).lineLimit(1)
      }
    }
    .badge(session.unreadCount > 0 ? Text("\(session.unreadCount)") : session.unreadStatus ? Text("New") : nil)
  }

  private func preview(_ message: ConfabAPI.SessionParts.LastMessage) -> String {
    if message.state == .recalled { return "Message recalled" }
    let text = message.content ?? ""
    return "\(message.authorName): \(text.isEmpty && !message.attachments.isEmpty ? "File" : text)"
  }
}
