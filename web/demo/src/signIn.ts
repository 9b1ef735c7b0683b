/** The user of this device. In development one click gets a token; otherwise it is pasted, or part of the address. */
import type { Token, Tokens } from "./confab/client";
import { disk } from "./confab/disk";

export interface Person {
  id: string;
  displayName: string;
}

const params = new URLSearchParams(location.search);

/** Two devices in one browser store their data separately. */
export const place = `confab.${params.get("device") ?? "browser"}`;
const TOKEN_KEY = `${place}.token`;

let cast: Promise<Person[] | null> | undefined;
/** The people one can sign in as; null if the server gives out no tokens. */
export const people = () =>
  (cast ??= fetch("/dev/people")
    .then((answer) => (answer.ok ? (answer.json() as Promise<Person[]>) : null))
    .catch(() => ((cast = undefined), null)));

export const signIn = async (userId: string) => keep(await fresh(userId));

async function fresh(userId: string): Promise<Token> {
  const answer = await fetch("/dev/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ userId }),
  });
  if (!answer.ok) throw new Refused(answer.status, `Signing in as ${userId} was refused.`);
  return (await answer.json()) as Token;
}

class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** Reads user and expiry from the token. The server decides whether it is valid. */
export function takeToken(token: string): Token {
  const part = token.split(".")[1] ?? "";
  const bytes = Uint8Array.from(atob(part.replaceAll("-", "+").replaceAll("_", "/")), (byte) => byte.charCodeAt(0));
  const claims = JSON.parse(new TextDecoder().decode(bytes)) as { sub?: unknown; exp?: unknown };
  if (typeof claims.sub !== "string") throw new Error("This is no token.");
  return keep({ token, userId: claims.sub, expiresAt: typeof claims.exp === "number" ? claims.exp * 1000 : Number.MAX_SAFE_INTEGER });
}

const held = () => JSON.parse(disk.get(TOKEN_KEY) ?? "null") as Token | null;

/** Another user may have signed in in another tab: that sign-in is not touched. */
export const signOut = (userId: string) => held()?.userId === userId && disk.remove(TOKEN_KEY);

/** The user signed in on this device or by the address (`#token=…`, `?as=bob`). */
export async function remembered(): Promise<Token | null> {
  if (location.hash.startsWith("#token=")) {
    const token = location.hash.slice("#token=".length);
    history.replaceState(null, "", location.pathname + location.search);
    return takeToken(token);
  }
  const last = held();
  const wanted = params.get("as");
  if (last && (!wanted || last.userId === wanted) && (last.expiresAt ?? 0) > Date.now() + 5000) return last;
  const user = wanted ?? last?.userId;
  return user && (await people())?.some(({ id }) => id === user) ? await signIn(user) : null;
}

export function tokensOf(first: Token): Tokens {
  let current = first;
  let renewing: Promise<Token | null> | undefined;
  return {
    current: () => current,
    renew: () =>
      (renewing ??= fresh(current.userId)
        .then((token) => (current = held()?.userId === token.userId ? keep(token) : token))
        .catch((error: unknown) => {
          if (error instanceof Refused && error.status < 429) return null;
          throw error;
        })
        .finally(() => (renewing = undefined))),
  };
}

function keep(token: Token): Token {
  disk.set(TOKEN_KEY, JSON.stringify(token));
  return token;
}
