// How many milliseconds to wait before the same may be tried again; null: it would come to the same. `error` is what the
// client gave you: Apollo's, urql's, Relay's, or a list of GraphQL errors. One without any is the network's: it may have happened.
export function waitBefore(error, attempt = 1) {
  const errors = Array.isArray(error) ? error : error.errors ?? error.graphQLErrors ?? error.source?.errors ?? [];
  if (!errors.every((each) => each.extensions?.retryable)) return null;
  const asked = Math.max(0, ...errors.map((each) => each.extensions.retryAfterMs ?? 0));
  return asked + Math.random() * Math.min(250 * 2 ** attempt, 2_500);
}

// Does `request` again for as long as that may help. repeatable: doing it twice comes to the same.
export async function trying(request, repeatable = true) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await request();
    } catch (error) {
      const wait = repeatable && attempt < 10 ? waitBefore(error, attempt) : null;
      if (wait === null) throw error;
      await new Promise((resolve) => { setTimeout(resolve, wait); });
    }
  }
}
