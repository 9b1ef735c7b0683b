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

/** Signs in with a token. The server returns its user, because a setting of the server names the claim with the user id. */
export const signInWith = async (token: string) => keep(await identify(token));

async function identify(token: string): Promise<Token> {
  return { token, userId: await userOf(token), expiresAt: expiryOf(token) };
}

async function userOf(token: string): Promise<string> {
  const away = new Error("The server did not answer. Try again.");
  const answer = await fetch("/graphql", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ query: MeDocument.text }),
    signal: AbortSignal.timeout(20_000),
  }).catch(() => Promise.reject(away));
  const { data, errors } = (await answer.json().catch(() => Promise.reject(away))) as Answer;
  if (data) return data.me.id;
  throw errors?.every((each) => each.extensions?.retryable) ? away : new Refused(answer.status, "The token was refused.");
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

const held = () => JSON.parse(disk.get(TOKEN_KEY) ?? "null") as Token | null;

/** Another user may have signed in in another tab: that sign-in is not touched. */
export const signOut = (userId: string) => held()?.userId === userId && disk.remove(TOKEN_KEY);

/**
 * The user signed in on this device or by the address (`#token=…`, `?as=bob`). A token of another user in the address replaces a
 * sign-in only if `mayReplace` returns true, because anybody can make such a link.
 */
export async function remembered(mayReplace: (current: string, next: string) => Promise<boolean>): Promise<Token | null> {
  const last = held();
  if (location.hash.startsWith("#token=")) {
    const identified = identify(location.hash.slice("#token=".length));
    // Without an answer the address stays as it is, so that a reload tries again.
    await identified.catch((error: unknown) => {
      if (!(error instanceof Refused)) throw error;
    });
    history.replaceState(null, "", location.pathname + location.search);
    const next = await identified;
    if (!last || last.userId === next.userId || (await mayReplace(last.userId, next.userId))) return keep(next);
  }
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
