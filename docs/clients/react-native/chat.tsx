import { createClient, type ClientOptions, type ConfabClient, type Session } from "@confab/client";
import { ConfabProvider, useClient, useMarkRead, useMessages, useSessions, useTyping } from "@confab/client/react";
import { useEffect, useMemo, useState } from "react";
import { ActivityIndicator, AppState, FlatList, Pressable, Text, TextInput, View, type AppStateStatus } from "react-native";

/**
 * The client of the signed-in user while the app is in the foreground; null before the first one. In the background there is none:
 * a connected device would count as in use, and get no pushes. Messages that wait are in options.storage, and are sent later.
 * options: the same object as long as the user is the same.
 */
export function useForegroundClient(options: ClientOptions): ConfabClient | null {
  const [client, setClient] = useState<ConfabClient | null>(null);
  useEffect(() => {
    let running: ConfabClient | null = null;
    const follow = (state: AppStateStatus) => {
      if (state === "active" && !running) {
        running = createClient(options);
        setClient(running);
      } else if (state === "background") {
        running?.stop(); // The views keep their last value, so the screen stays until the next client has started.
        running = null;
      }
    };
    follow(AppState.currentState);
    const subscription = AppState.addEventListener("change", follow);
    return () => {
      subscription.remove();
      running?.stop();
    };
  }, [options]);
  return client;
}

export function Chats({ options }: { options: ClientOptions }) {
  const client = useForegroundClient(options);
  const [conversationId, open] = useState<string | null>(null);
  if (!client) return null;
  return (
    <ConfabProvider client={client}>
      <View style={{ flex: 1 }} onTouchStart={() => client.reportUse()}>
        {conversationId && <Action label="Back" onPress={() => open(null)} />}
        {conversationId ? <Conversation key={conversationId} conversationId={conversationId} /> : <Sessions open={open} />}
      </View>
    </ConfabProvider>
  );
}

function Sessions({ open }: { open: (conversationId: string) => void }) {
  const { status, sessions, error } = useSessions();
  if (status === "loading") return <ActivityIndicator accessibilityLabel="Loading" />;
  if (status === "failed") return <Text accessibilityRole="alert">{error?.message}</Text>;
  return (
    <FlatList
      data={sessions}
      keyExtractor={({ id }) => id}
      renderItem={({ item }) => <SessionRow session={item} open={open} />}
      ListEmptyComponent={<Text>No conversations yet</Text>}
    />
  );
}

function SessionRow({ session, open }: { session: Session; open: (conversationId: string) => void }) {
  const { conversation, lastMessage, unreadCount, unreadStatus } = session;
  const preview = lastMessage?.state === "RECALLED" ? "Message recalled" : (lastMessage?.content ?? "");
  return (
    <Pressable accessibilityRole="button" onPress={() => open(conversation.id)}>
      <Text>{conversation.title}</Text>
      <Text numberOfLines={1}>{preview}</Text>
      {unreadCount > 0 ? <Text>{`${unreadCount} unread`}</Text> : unreadStatus && <Text>Unread</Text>}
    </Pressable>
  );
}

function Conversation({ conversationId }: { conversationId: string }) {
  const client = useClient();
  const { status, messages, pending, hasOlder, error, loadOlder, send } = useMessages(conversationId);
  const typists = useTyping(conversationId);
  const [text, setText] = useState("");
  useMarkRead(conversationId, messages.at(-1)?.seq);

  const write = (written: string) => {
    setText(written);
    if (written) client.startTyping(conversationId);
    else client.stopTyping(conversationId);
  };
  const submit = () => {
    send({ text });
    setText("");
  };
  // An inverted list begins at the bottom.
  const rows = useMemo(() => [...messages, ...pending].reverse(), [messages, pending]);
  return (
    <View style={{ flex: 1 }}>
      {status === "loading" && <ActivityIndicator accessibilityLabel="Loading" />}
      {error && <Text accessibilityRole="alert">{error.message}</Text>}
      <FlatList
        inverted
        data={rows}
        keyExtractor={(row) => ("draft" in row ? row.key : (row.idempotencyKey ?? row.id))}
        // After a failure the user scrolls again.
        onEndReached={hasOlder ? () => void loadOlder().catch(() => {}) : null}
        renderItem={({ item }) =>
          "draft" in item ? (
            <View>
              <Text>{item.draft.text}</Text>
              <Text>{item.failure ?? "Sending"}</Text>
              {item.failure !== null && <Action label="Try again" onPress={() => client.retry(item.key)} />}
              {item.failure !== null && <Action label="Discard" onPress={() => client.discard(item.key)} />}
            </View>
          ) : (
            <View>
              <Text>{item.authorName}</Text>
              <Text>{item.state === "RECALLED" ? "Message recalled" : item.content}</Text>
            </View>
          )
        }
      />
      {typists.length > 0 && <Text>{`Typing: ${typists.map(({ displayName }) => displayName).join(", ")}`}</Text>}
      <TextInput accessibilityLabel="Message" value={text} onChangeText={write} multiline />
      <Action label="Send" disabled={!text.trim()} onPress={submit} />
    </View>
  );
}

function Action({ label, disabled = false, onPress }: { label: string; disabled?: boolean; onPress: () => void }) {
  return (
    <Pressable accessibilityRole="button" disabled={disabled} onPress={onPress}>
      <Text>{label}</Text>
    </Pressable>
  );
}
