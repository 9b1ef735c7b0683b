package example.chat

import com.apollographql.apollo.api.ApolloResponse
import com.apollographql.apollo.exception.ApolloException
import com.apollographql.apollo.exception.ApolloWebSocketClosedException
import com.apollographql.apollo.exception.SubscriptionOperationException
import kotlin.random.Random
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds

/** Close codes after which the same client would be refused again. */
private val FINAL_CODES = setOf(1002, 1007, 1009, 4400, 4406, 4409, 4429, 4500)

/** The user has to sign in again. */
private const val DEVICE_REMOVED = 4401
private const val TOKEN_REFUSED = 4403

/**
 * Why an operation has no answer.
 *
 * [code] is one of the server's error codes, or NETWORK: then a mutation may have been executed. SIGNED_OUT: there are no more
 * answers until the user signs in again.
 */
class Failure(
    message: String,
    val code: String,
    val isRetryable: Boolean,
    private val retryAfter: Duration = Duration.ZERO,
) : Exception(message) {
    /** The time to wait before the given attempt (1, 2, …). Half of the back-off is random: clients must not come all at once. */
    fun waitBefore(attempt: Int, longest: Duration): Duration {
        val backOff = (250.milliseconds * (1 shl attempt.coerceAtMost(10))).coerceAtMost(longest)
        return retryAfter + backOff * Random.nextDouble(0.5, 1.0)
    }
}

fun signedOut(reason: String) = Failure(reason, "SIGNED_OUT", isRetryable = false)

/** The failure of a response; null if it is complete. */
fun failureOf(response: ApolloResponse<*>): Failure? {
    val errors = response.errors.orEmpty().map { it.message to it.extensions }
    return response.exception?.let(::failureOf) ?: if (errors.isEmpty()) null else failureOf(errors)
}

private fun failureOf(exception: ApolloException): Failure = when (exception) {
    is SubscriptionOperationException -> failureOf(
        (exception.payload as? List<*>).orEmpty().filterIsInstance<Map<*, *>>().map { "${it["message"]}" to (it["extensions"] as? Map<*, *>) },
    )
    is ApolloWebSocketClosedException -> closed(exception.code, exception.reason.orEmpty())
    // Apollo wraps what an interceptor throws.
    else -> exception.cause as? Failure ?: Failure("The server did not answer.", "NETWORK", isRetryable = true)
}

private fun failureOf(errors: List<Pair<String, Map<*, *>?>>): Failure {
    // Retryable only if all are.
    val (message, extensions) = errors.firstOrNull { (_, extensions) -> extensions?.get("retryable") != true }
        ?: errors.firstOrNull() ?: ("The subscription was refused." to null)
    return Failure(
        message,
        code = extensions?.get("code") as? String ?: "INTERNAL",
        isRetryable = extensions?.get("retryable") == true,
        retryAfter = ((extensions?.get("retryAfterMs") as? Number)?.toLong() ?: 0).milliseconds,
    )
}

private fun closed(code: Int, reason: String): Failure {
    val isBanned = code == TOKEN_REFUSED && (reason.startsWith("Banned") || reason.startsWith("This user is banned"))
    if (code == DEVICE_REMOVED || isBanned) return signedOut(reason)
    // A restarting server gives each client its own time to reconnect.
    val asked = Regex("retry in (\\d+) ms").find(reason)?.groupValues?.get(1)?.toLongOrNull() ?: 0
    val meaning = if (code == TOKEN_REFUSED) "UNAUTHENTICATED" else "NETWORK"
    return Failure("The connection was closed: $code $reason", meaning, isRetryable = code !in FINAL_CODES, asked.milliseconds)
}
