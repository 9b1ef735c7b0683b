package example.chat

import com.apollographql.apollo.api.Optional
import example.chat.graphql.RegisterPushMutation
import example.chat.graphql.type.DeviceInput
import example.chat.graphql.type.DeviceType
import example.chat.graphql.type.PushPlatform
import java.util.Locale

/**
 * Call it at each start of the app, and in `onNewToken` of your FirebaseMessagingService. An empty token switches pushes to this
 * device off: call it before signing out, or the next person gets this user's messages. Throws a [Failure].
 */
suspend fun Connection.registerPush(token: String) {
    val input = DeviceInput(
        id = Optional.present(device.id),
        type = DeviceType.MOBILE,
        pushPlatform = if (token.isEmpty()) Optional.absent() else Optional.present(PushPlatform.FCM),
        pushToken = Optional.present(token),
        locale = Optional.present(Locale.getDefault().toLanguageTag()),
    )
    retrying(attempts = 5) { mutate(RegisterPushMutation(input)) }
}
