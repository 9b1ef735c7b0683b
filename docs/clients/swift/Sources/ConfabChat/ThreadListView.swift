import SwiftUI

/// The threads of a conversation, the latest reply first, as they were when the view appeared.
struct ThreadListView: View {
  let chat: Chat
  let conversationId: String
  @State private var threads: [ConfabAPI.ThreadsQuery.Data.Threads.Edge.Node] = []
  @State private var next: String?
  @State private var failure: String?

  var body: some View {
    List {
      ForEach(threads, id: \.id) { thread in
        NavigationLink(value: thread.id) {
          Text(thread.title).badge(thread.replyCount)
        }
      }
      if let next {
        ProgressView().task(id: next) { await load(after: next) }
      }
      if let failure { Text(failure) }
    }
    .navigationTitle("Threads")
    .task { if threads.isEmpty { await load(after: nil) } }
  }

  private func load(after: String?) async {
    do {
      let page = try await retrying(attempts: 5) {
        try await chat.connection.query(ConfabAPI.ThreadsQuery(conversationId: conversationId, after: after.orAbsent)).threads
      }
      threads += page.edges.map(\.node)
      next = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : nil
      failure = nil
    } catch {
      failure = (try? Failure(error))?.message
    }
  }
}
