/** The user of this device. In development one click gets a token; otherwise it is pasted, or part of the address. */
import type { Token, Tokens } from "@confab/client";

import { disk } from "./confab/disk";
import { MeDocument, type MeQuery } from "./gql";

export interface Person {
  id: string;
  displayName: string;
}

const params = new URLSearchParams(location.search);

/** Two devices in one browser store their data separately. */
export const storagePrefix = `confab.${params.get("device") ?? "browser"}`;
const TOKEN_KEY = `${storagePrefix}.token`;

let peopleRequest: Promise<Person[] | null> | undefined;
/** The people to sign in as; null if the server issues no tokens. */
export const loadPeople = () =>
  (peopleRequest ??= fetch("/dev/people")
    .then((answer) => (answer.ok ? (answer.json() as Promise<Person[]>) : null))
    .catch(() => ((peopleRequest = undefined), null)));

export const signIn = async (userId: string) => storeToken(await requestToken(userId));

async function requestToken(userId: string): Promise<Token> {
  const answer = await fetch("/dev/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ userId }),
  });
  if (!answer.ok) throw new SignInRefused(answer.status, `Signing in as ${userId} was refused.`);
  return (await answer.json()) as Token;
}

class SignInRefused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** Signs in with a token. The server returns its user, because a setting of the server names the claim with the user id. */
export const signInWithToken = async (token: string) => storeToken(await identify(token));

async function identify(token: string): Promise<Token> {
  return { token, userId: await userIdOf(token), expiresAt: expiryOf(token) };
}

async function userIdOf(token: string): Promise<string> {
  const unreachable = new Error("The server did not answer. Try again.");
  const answer = await fetch("/graphql", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ query: MeDocument.text }),
    signal: AbortSignal.timeout(20_000),
  }).catch(() => Promise.reject(unreachable));
  const { data, errors } = (await answer.json().catch(() => Promise.reject(unreachable))) as Answer;
  if (data) return data.me.id;
  throw errors?.every((each) => each.extensions?.retryable) ? unreachable : new SignInRefused(answer.status, "The token was refused.");
}

interface Answer {
  data?: MeQuery | null;
  errors?: { extensions?: { retryable?: boolean } }[];
}

/** Milliseconds since the epoch. A token without a readable expiry is used until the server refuses it. */
function expiryOf(token: string): number {
  try {
    const part = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    const { exp } = JSON.parse(atob(part)) as { exp?: unknown };
    return typeof exp === "number" ? exp * 1000 : Number.MAX_SAFE_INTEGER;
  } catch {
    return Number.MAX_SAFE_INTEGER;
  }
}

const storedToken = () => JSON.parse(disk.get(TOKEN_KEY) ?? "null") as Token | null;

/** Another user may have signed in in another tab: that sign-in is not touched. */
export const signOut = (userId: string) => storedToken()?.userId === userId && disk.remove(TOKEN_KEY);

/**
 * The user signed in on this device or by the address (`#token=…`, `?as=bob`). A token of another user in the address replaces a
 * sign-in only if `mayReplace` returns true, because anybody can make such a link.
 */
export async function restoreToken(mayReplace: (current: string, next: string) => Promise<boolean>): Promise<Token | null> {
  const last = storedToken();
  if (location.hash.startsWith("#token=")) {
    const identified = identify(location.hash.slice("#token=".length));
    // Without an answer the address stays as it is, so that a reload tries again.
    await identified.catch((error: unknown) => {
      if (!(error instanceof SignInRefused)) throw error;
    });
    history.replaceState(null, "", location.pathname + location.search);
    const next = await identified;
    if (!last || last.userId === next.userId || (await mayReplace(last.userId, next.userId))) return storeToken(next);
  }
  const wanted = params.get("as");
  if (last && (!wanted || last.userId === wanted) && (last.expiresAt ?? 0) > Date.now() + 5000) return last;
  const user = wanted ?? last?.userId;
  return user && (await loadPeople())?.some(({ id }) => id === user) ? await signIn(user) : null;
}

export function tokenSource(first: Token): Tokens {
  let current = first;
  let renewing: Promise<Token | null> | undefined;
  return {
    current: () => current,
    renew: () =>
      (renewing ??= requestToken(current.userId)
        .then((token) => (current = storedToken()?.userId === token.userId ? storeToken(token) : token))
        .catch((error: unknown) => {
          if (error instanceof SignInRefused && error.status < 429) return null;
          throw error;
        })
        .finally(() => (renewing = undefined))),
  };
}

function storeToken(token: Token): Token {
  disk.set(TOKEN_KEY, JSON.stringify(token));
  return token;
}
