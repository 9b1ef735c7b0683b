// The user of all requests: one of the demo's people (development only), or the owner of a token.
// Kept as long as the browser tab: two tabs may be two people.

/** One of the demo's people, as `GET /dev/people` names them. */
export interface Person {
  id: string;
  displayName: string;
}

/** expiresAt: ms since the epoch, null if the token does not say. person: set if one click made the token, so another can be made. */
export interface Identity {
  token: string;
  who: string;
  expiresAt: number | null;
  person: Person | null;
}

const STORED = "confab:playground:identity";
const RENEW_BEFORE_MS = 5 * 60_000;

type Listener = (identity: Identity | null) => void;

let current: Identity | null = stored();
let renewal: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<Listener>();

export const identity = () => current;

export function onIdentity(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

let known: Promise<Person[]> | undefined;

/** The demo's people; empty if this is not a development server. Tokens are then entered by hand. */
export function people(): Promise<Person[]> {
  return (known ??= fetchPeople());
}

async function fetchPeople(): Promise<Person[]> {
  try {
    const response = await fetch("/dev/people");
    return response.ok ? ((await response.json()) as Person[]) : [];
  } catch {
    return [];
  }
}

/** Sends requests as one of the demo's people. Throws an error with a sentence for the user. */
export async function signInAs(person: Person): Promise<void> {
  become({ ...(await fetchToken({ userId: person.id })), who: person.displayName, person });
}

interface IssuedToken {
  token: string;
  expiresAt: number;
}

/** A token of one of the demo's people, also with the role service or admin. Throws an error with a sentence for the user. */
async function fetchToken(wanted: { userId: string; role?: string }): Promise<IssuedToken> {
  const response = await fetch("/dev/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(wanted),
  });
  if (!response.ok) throw new Error(`Signing in did not work: the server answered ${response.status}.`);
  return (await response.json()) as IssuedToken;
}

const ROLES = ["service", "admin"];
const issued = new Map<string, IssuedToken>();

/** A token of one of the demo's people, by id, or one of Alice's with a role. The signed-in user stays the same. */
export async function tokenOf(who: string): Promise<string> {
  const { token, expiresAt } = issued.get(who) ?? { token: "", expiresAt: 0 };
  if (expiresAt - RENEW_BEFORE_MS > Date.now()) return token;
  const fetched = await fetchToken(ROLES.includes(who) ? { userId: "alice", role: who } : { userId: who });
  issued.set(who, fetched);
  return fetched.token;
}

/** Sends requests with a given token; with an empty one, anonymously. */
export function takeToken(text: string): void {
  const token = text.trim().replace(/^Bearer\s+/i, "");
  if (!token) return become(null);
  const claims = claimsOf(token);
  const role = typeof claims?.role === "string" && claims.role !== "user" ? ` (${claims.role})` : "";
  const expiresAt = typeof claims?.exp === "number" ? claims.exp * 1000 : null;
  become({ token, who: claims ? `${claims.name ?? claims.sub ?? "the token's user"}${role}` : "", expiresAt, person: null });
}

/** Uses a token from the address and removes it there, so that it stays in no history and no bookmark. */
export function takeTokenFromAddress(): void {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search);
  takeToken(token);
}

/** Describes an identity: its user, and how long its token is valid. */
export function describe(identity: Identity | null): { good: boolean; text: string } {
  if (!identity) return { good: false, text: "Not signed in: only the documentation is available." };
  if (!identity.who) return { good: false, text: "This is not a token." };
  if (identity.expiresAt === null) return { good: true, text: `Signed in as ${identity.who}` };
  const left = identity.expiresAt - Date.now();
  if (left <= 0) return { good: false, text: `${identity.who}: this token has expired.` };
  return { good: true, text: `Signed in as ${identity.who}, ${duration(left / 1000)}` };
}

function become(next: Identity | null): void {
  current = next;
  try {
    if (next) sessionStorage.setItem(STORED, JSON.stringify(next));
    else sessionStorage.removeItem(STORED);
  } catch {
    // Storage is disabled: the identity is kept until the page is closed.
  }
  keepAlive();
  for (const listener of listeners) listener(next);
}

/** A development token lasts an hour; another one is fetched in time, also by pages that were suspended. */
export function keepAlive(): void {
  clearTimeout(renewal);
  const { person, expiresAt } = current ?? {};
  if (!person || !expiresAt) return;
  const again = () => signInAs(person).catch(() => (renewal = setTimeout(keepAlive, 30_000)));
  const wait = expiresAt - RENEW_BEFORE_MS - Date.now();
  renewal = setTimeout(again, Math.max(0, wait));
}

function stored(): Identity | null {
  try {
    return JSON.parse(sessionStorage.getItem(STORED) ?? "null") as Identity | null;
  } catch {
    return null;
  }
}

function claimsOf(token: string): Record<string, unknown> | null {
  try {
    const bytes = atob(token.split(".")[1]!.replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (letter) => letter.charCodeAt(0))));
  } catch {
    return null;
  }
}

function duration(seconds: number): string {
  if (seconds >= 2 * 86_400) return `${Math.floor(seconds / 86_400)} days`;
  if (seconds >= 2 * 3600) return `${Math.floor(seconds / 3600)} hours`;
  return seconds >= 60 ? `${Math.floor(seconds / 60)} min` : "less than a minute";
}
