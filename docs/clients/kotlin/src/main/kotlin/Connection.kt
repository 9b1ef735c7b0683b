package example.chat

import com.apollographql.apollo.ApolloClient
import com.apollographql.apollo.api.ApolloResponse
import com.apollographql.apollo.api.Mutation
import com.apollographql.apollo.api.Operation
import com.apollographql.apollo.api.Query
import com.apollographql.apollo.api.Subscription
import com.apollographql.apollo.api.http.HttpRequest
import com.apollographql.apollo.api.http.HttpResponse
import com.apollographql.apollo.network.http.HttpInterceptor
import com.apollographql.apollo.network.http.HttpInterceptorChain
import com.apollographql.apollo.network.websocket.GraphQLWsProtocol
import com.apollographql.apollo.network.websocket.WebSocketEngine
import com.apollographql.apollo.network.websocket.WebSocketNetworkTransport
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.delay
import okhttp3.OkHttpClient
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource

/** The source of tokens: your sign-in service. */
fun interface Tokens {
    /**
     * Returns a token that is valid for at least a minute, from memory where possible. Null: the user has to sign in again.
     * Throws if there is none at the moment.
     *
     * @param refused a token that the server no longer accepts although it has not expired.
     */
    suspend fun token(refused: String?): String?
}

/** This device, as its user finds it in the list of their devices. Keep [id] (1 to 64 characters) as long as the app is installed. */
data class Device(val id: String)

private val LONGEST_WAIT = 15.seconds

/** A connection of this length was no failure. */
private val STEADY = 10.seconds

/** The connection to the server: HTTP for queries and mutations, and one WebSocket for all subscriptions. Safe to use from every thread. */
class Connection(url: String, val device: Device, private val tokens: Tokens) {
    @Volatile private var shown: String? = null

    @Volatile private var refused: String? = null

    private val apollo = ApolloClient.Builder()
        .serverUrl(url)
        .addHttpInterceptor(Authorization())
        .subscriptionNetworkTransport(
            WebSocketNetworkTransport.Builder()
                .serverUrl(url.replaceFirst("http", "ws"))
                .wsProtocol(GraphQLWsProtocol { connectionInit() }) // for each connection, so each begins with a valid token
                // OkHttp ends a connection that does not answer its pings. Apollo's own pings do not wait for an answer.
                .webSocketEngine(WebSocketEngine(OkHttpClient.Builder().pingInterval(10, TimeUnit.SECONDS).build()))
                .idleTimeout(5.seconds)
                .build(),
        )
        .build()

    suspend fun <D : Query.Data> query(query: Query<D>): D = answer { apollo.query(query).execute() }

    suspend fun <D : Mutation.Data> mutate(mutation: Mutation<D>): D = answer { apollo.mutation(mutation).execute() }

    /**
     * Passes on the events of a subscription, across all disconnects. Ends only with a [Failure] that a retry cannot help.
     *
     * @param subscription called for each connection. It returns the subscription from after the last event that was applied.
     */
    suspend fun <D : Subscription.Data> follow(subscription: () -> Subscription<D>, apply: (D) -> Unit): Nothing {
        var attempt = 0
        while (true) {
            val begun = TimeSource.Monotonic.markNow()
            val failure = try {
                currentToken()
                apollo.subscription(subscription()).toFlow().collect { response -> apply(dataOf(response)) }
                Failure("The server has ended the subscription.", "NETWORK", isRetryable = true)
            } catch (failure: Failure) {
                failure
            }
            if (!failure.isRetryable) throw failure
            if (failure.code == "UNAUTHENTICATED") refused = shown
            // A server that accepts and closes at once is asked less and less often.
            attempt = if (begun.elapsedNow() > STEADY) 1 else attempt + 1
            delay(failure.waitBefore(attempt, LONGEST_WAIT))
        }
    }

    private suspend fun <D : Operation.Data> answer(ask: suspend () -> ApolloResponse<D>): D = try {
        dataOf(ask())
    } catch (failure: Failure) {
        if (failure.code != "UNAUTHENTICATED") throw failure
        refused = shown
        dataOf(ask())
    }

    private fun <D : Operation.Data> dataOf(response: ApolloResponse<D>): D =
        failureOf(response)?.let { throw it } ?: response.data ?: throw Failure("The answer is empty.", "INTERNAL", isRetryable = false)

    /** `follow` has asked for a token just before. Nothing may be thrown here: it would end the app. */
    private fun connectionInit() =
        mapOf("Authorization" to "Bearer $shown", "deviceId" to device.id, "deviceType" to "MOBILE")

    private suspend fun currentToken(): String {
        val token = try {
            tokens.token(refused)
        } catch (cancelled: CancellationException) {
            throw cancelled
        } catch (error: Exception) {
            throw Failure("There is no token: ${error.message}", "NETWORK", isRetryable = true)
        }
        shown = token
        return token ?: throw signedOut("You have been signed out.")
    }

    private inner class Authorization : HttpInterceptor {
        override suspend fun intercept(request: HttpRequest, chain: HttpInterceptorChain): HttpResponse {
            return chain.proceed(request.newBuilder().addHeader("Authorization", "Bearer ${currentToken()}").build())
        }
    }
}

/** Repeats [block] while a retry may help. It must have the same effect if it is executed twice. */
suspend fun <T> retrying(attempts: Int = Int.MAX_VALUE, block: suspend () -> T): T {
    var attempt = 1
    while (true) {
        try {
            return block()
        } catch (failure: Failure) {
            if (!failure.isRetryable || attempt == attempts) throw failure
            delay(failure.waitBefore(attempt, LONGEST_WAIT))
            attempt += 1
        }
    }
}
