import SwiftUI

struct Composer: View {
  let chat: Chat
  let conversationId: String
  @Binding var replyTo: Message?
  @State private var text = ""
  @State private var files: [ConfabAPI.AttachmentParts] = []
  @State private var isChoosing = false
  @State private var failure: String?

  var body: some View {
    VStack(alignment: .leading) {
      if let failure { Text(failure).foregroundStyle(.red) }
      ForEach(files, id: \.id) { Text($0.filename).font(.caption) }
      if let replyTo {
        Button("Do not reply to \(replyTo.author) in a thread") { self.replyTo = nil }
      }
      HStack {
        Button("Attach", systemImage: "paperclip") { isChoosing = true }.labelStyle(.iconOnly)
        TextField("Message", text: $text, axis: .vertical)
        Button("Send", action: send).disabled(!canSend)
      }
    }
    .padding()
    .fileImporter(isPresented: $isChoosing, allowedContentTypes: [.item]) { chosen in
      Task { await attach(chosen) }
    }
    .onChange(of: text) { _, text in
      Task { text.isEmpty ? await chat.typing.stopped(in: conversationId) : await chat.typing.pressed(in: conversationId) }
    }
  }

  private var canSend: Bool {
    !files.isEmpty || !text.trimmingCharacters(in: .whitespacesAndNewlines).isEmpty
  }

  private func send() {
    chat.send(text, to: conversationId, attachmentIds: files.map(\.id), threadOf: replyTo?.id)
    text = ""
    files = []
    replyTo = nil
  }

  private func attach(_ chosen: Result<URL, any Error>) async {
    do {
      let url = try chosen.get()
      let isAllowed = url.startAccessingSecurityScopedResource()
      defer { if isAllowed { url.stopAccessingSecurityScopedResource() } }
      let file = try LocalFile(url: url)
      files.append(try await chat.connection.upload(file, to: conversationId, key: UUID().uuidString))
      failure = nil
    } catch {
      failure = (try? Failure(error))?.message
    }
  }
}
