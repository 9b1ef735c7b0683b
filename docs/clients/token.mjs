// Promises a token that is good for a while, asking for another one when it has to. In development Confab itself signs people in;
// everywhere else this is what asks your identity provider. refused: one that the server takes no longer, though it isn't at its end.
export function developmentToken(origin, userId) {
  let current;
  return async function token(refused) {
    if (!current || current.token === refused || current.expiresAt - Date.now() < 60_000) {
      const response = await fetch(`${origin}/dev/sign-in`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ userId }),
      });
      if (!response.ok) throw new Error(`no token: ${response.status}`);
      current = await response.json();
    }
    return current.token;
  };
}
