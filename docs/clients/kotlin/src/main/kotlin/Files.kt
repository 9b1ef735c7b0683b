package example.chat

import android.content.Context
import android.net.Uri
import android.provider.OpenableColumns
import com.apollographql.apollo.api.Optional
import example.chat.graphql.CompleteUploadMutation
import example.chat.graphql.CreateUploadMutation
import example.chat.graphql.FileQuery
import example.chat.graphql.fragment.AttachmentParts
import example.chat.graphql.type.AttachmentState
import example.chat.graphql.type.CreateUploadInput
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.delay
import kotlinx.coroutines.withContext
import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.net.HttpURLConnection
import java.net.URL
import kotlin.time.Duration.Companion.seconds

/** Answers to bytes that are not what was announced. */
private val REFUSED = setOf(400, 411, 413, 422)

/** The server has the file already: an earlier attempt completed the upload. */
private const val COMPLETED = 409

/** A file to send. [open] is called for each attempt. */
class LocalFile(val name: String, val size: Int, val type: String?, val open: () -> InputStream)

/** The file that the user has chosen in another app. Throws a [Failure]. */
fun Context.localFile(uri: Uri): LocalFile {
    val unreadable = Failure("This file cannot be read.", "INVALID_INPUT", isRetryable = false)
    val columns = arrayOf(OpenableColumns.DISPLAY_NAME, OpenableColumns.SIZE)
    return contentResolver.query(uri, columns, null, null, null)?.use { row ->
        if (!row.moveToFirst()) throw unreadable
        LocalFile(row.getString(0), row.getInt(1), contentResolver.getType(uri)) {
            contentResolver.openInputStream(uri) ?: throw FileNotFoundException(uri.toString())
        }
    } ?: throw unreadable
}

/**
 * Sends a file, and returns its attachment for a message to [conversationId].
 *
 * @param key keep it to continue after a failure: with the same key the server stores one file. Throws a [Failure].
 */
suspend fun Connection.upload(file: LocalFile, conversationId: String, key: String): AttachmentParts = retrying(attempts = 8) {
    val input = CreateUploadInput(
        filename = file.name,
        sizeBytes = file.size,
        contentType = Optional.presentIfNotNull(file.type),
        conversationId = conversationId,
        idempotencyKey = Optional.present(key),
    )
    // The same key answers the same upload, with an address that is valid again.
    val upload = mutate(CreateUploadMutation(input)).createUpload
    val status = put(upload, file)
    if (status !in 200..299 && status != COMPLETED) {
        throw Failure("The file was not stored: status $status.", "NETWORK", isRetryable = status !in REFUSED)
    }
    scanned(mutate(CompleteUploadMutation(upload.id)).completeUpload.attachmentParts)
}

/** Waits for the virus scanner, if there is one. */
private suspend fun Connection.scanned(completed: AttachmentParts): AttachmentParts {
    var attachment = completed
    while (attachment.state == AttachmentState.SCANNING) {
        delay(1.seconds)
        attachment = retrying { query(FileQuery(completed.id)) }.attachment?.attachmentParts
            ?: throw Failure("The file has been removed.", "NOT_FOUND", isRetryable = false)
    }
    if (attachment.state != AttachmentState.READY) throw Failure("This file is not allowed.", "REJECTED", isRetryable = false)
    return attachment
}

private suspend fun put(upload: CreateUploadMutation.CreateUpload, file: LocalFile): Int = withContext(Dispatchers.IO) {
    val request = URL(upload.url).openConnection() as HttpURLConnection
    try {
        request.requestMethod = upload.method
        request.doOutput = true
        request.setFixedLengthStreamingMode(file.size)
        // Exactly these headers, and not the token: this may be the address of a bucket.
        upload.headers.forEach { request.setRequestProperty(it.name, it.value) }
        request.outputStream.use { output -> file.open().use { it.copyTo(output) } }
        request.responseCode
    } catch (error: IOException) {
        throw Failure("The file did not arrive: ${error.message}", "NETWORK", isRetryable = true)
    } finally {
        request.disconnect()
    }
}
