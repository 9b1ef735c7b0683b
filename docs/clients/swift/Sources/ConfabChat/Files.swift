import Foundation

/// A file to send. Its type is a hint: the server looks at the bytes.
struct LocalFile {
  let url: URL
  let name: String
  let size: Int
  let type: String?

  init(url: URL) throws {
    let values = try url.resourceValues(forKeys: [.fileSizeKey, .nameKey, .contentTypeKey])
    self.url = url
    name = values.name ?? url.lastPathComponent
    size = values.fileSize ?? 0
    type = values.contentType?.preferredMIMEType
  }
}

extension Connection {
  /// Sends a file, and returns its attachment for a message to the conversation.
  ///
  /// - Parameter key: keep it to continue after a failure: with the same key the server stores one file.
  func upload(_ file: LocalFile, to conversationId: String, key: String) async throws -> ConfabAPI.AttachmentParts {
    try await retrying(attempts: 8) {
      let input = ConfabAPI.CreateUploadInput(
        filename: file.name, sizeBytes: Int32(file.size), contentType: file.type.orAbsent, conversationId: conversationId,
        idempotencyKey: .some(key)
      )
      // The same key answers the same upload, with an address that is valid again.
      let upload = try await mutate(ConfabAPI.CreateUploadMutation(input: input)).createUpload
      let status = try await put(file, to: upload)
      // 409: an earlier attempt has completed it.
      guard 200..<300 ~= status || status == 409 else {
        // These are answers to bytes that are not what was announced.
        let isRefused = [400, 411, 413, 422].contains(status)
        throw Failure(message: "The file was not stored: status \(status).", code: "NETWORK", isRetryable: !isRefused)
      }
      let completed = try await mutate(ConfabAPI.CompleteUploadMutation(uploadId: upload.id)).completeUpload
      return try await scanned(completed.fragments.attachmentParts)
    }
  }

  /// Waits for the virus scanner, if there is one.
  private func scanned(_ completed: ConfabAPI.AttachmentParts) async throws -> ConfabAPI.AttachmentParts {
    var attachment = completed
    while attachment.state == .scanning {
      try await Task.sleep(for: .seconds(1))
      guard let found = try await retrying({ try await query(ConfabAPI.FileQuery(id: completed.id)).attachment }) else {
        throw Failure(message: "The file has been removed.", code: "NOT_FOUND", isRetryable: false)
      }
      attachment = found.fragments.attachmentParts
    }
    guard attachment.state == .ready else {
      throw Failure(message: "This file is not allowed.", code: "REJECTED", isRetryable: false)
    }
    return attachment
  }

  private func put(_ file: LocalFile, to upload: ConfabAPI.CreateUploadMutation.Data.CreateUpload) async throws -> Int {
    guard let url = URL(string: upload.url) else {
      throw Failure(message: "The address of the upload is wrong.", code: "INTERNAL", isRetryable: false)
    }
    var request = URLRequest(url: url)
    request.httpMethod = upload.method
    // Exactly these headers, and not the token: this may be the address of a bucket.
    for header in upload.headers { request.setValue(header.value, forHTTPHeaderField: header.name) }
    let (_, response) = try await URLSession.shared.upload(for: request, fromFile: file.url)
    return (response as? HTTPURLResponse)?.statusCode ?? 0
  }
}
