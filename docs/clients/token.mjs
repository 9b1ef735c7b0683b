// Returns a promise of a valid token, and requests a new one when necessary. In development Confab itself signs people in; in
// production ask your identity provider here. refused: a token that the server no longer accepts although it has not expired.
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
