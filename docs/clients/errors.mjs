// Returns the milliseconds to wait before the given attempt (1, 2, …). They double, and half of them is random, so that
// clients do not all come at once.
export const backOff = (attempt, longest) => (0.5 + 0.5 * Math.random()) * Math.min(250 * 2 ** attempt, longest);

// Returns the milliseconds to wait before a retry; null if a retry cannot help. `error` is the error of your client (Apollo,
// urql, Relay) or a list of GraphQL errors. Without GraphQL errors the network failed: the operation may have been executed.
export function waitBefore(error, attempt = 1, longest = 2_500) {
  const errors = Array.isArray(error) ? error : error.errors ?? error.graphQLErrors ?? error.source?.errors ?? [];
  if (!errors.every((each) => each.extensions?.retryable)) return null;
  const asked = Math.max(0, ...errors.map((each) => each.extensions.retryAfterMs ?? 0));
  return asked + backOff(attempt, longest);
}

// Repeats `request` while a retry may help. repeatable: executing it twice has the same effect as once.
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
