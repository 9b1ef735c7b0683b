// One WebSocket for everything that needs one. It opens with the first operation, and stays for some minutes after the last.

import { createClient, type Client } from "graphql-ws";

import { identity, onIdentity, type Identity } from "./identity";

const PATH = location.pathname;
const IDLE_MS = 10 * 60_000;
const DEVICE = "confab:playground:device";

/** Final close codes, as texts for users. */
const REASONS: Record<number, string> = {
  4400: "The server refused the connection: check the header Confab-Act-As.",
  4401: "You are not signed in, or the token was refused: sign in and run it again.",
  4403: "The token was refused, has expired, or may not act for users: sign in and run it again.",
  4429: "Too many connections or operations at once: wait a little and run it again.",
};

export interface Payload {
  query: string;
  variables?: Record<string, unknown>;
  operationName?: string | null;
}

export interface Failure {
  message: string;
  extensions?: unknown;
}

let socket:
  | { client: Client; authorization: string | undefined; actAs: string | undefined; who: string | undefined; open: boolean }
  | undefined;

onIdentity((next) => {
  // The same user with a later token: open subscriptions continue.
  if (socket && next?.person && socket.who === next.person.id) renew(next);
  else hangUp();
});

/** The connection with these headers. Another connection is closed. */
export function connect(headers: Record<string, string>): Client {
  const authorization = authorizationOf(headers);
  const actAs = header(headers, "confab-act-as");
  if (socket && socket.authorization === authorization && socket.actAs === actAs) return socket.client;
  hangUp();
  const current = identity();
  const who = authorization === `Bearer ${current?.token}` ? current?.person?.id : undefined;
  const mine = { authorization, actAs, who, open: false } as NonNullable<typeof socket>;
  mine.client = createClient({
    url: location.origin.replace(/^http/, "ws") + PATH,
    connectionParams: () => ({
      ...(mine.authorization ? { Authorization: mine.authorization } : {}),
      ...(actAs === undefined ? {} : { actAs: decoded(actAs) }),
      deviceId: deviceId(),
      deviceType: "WEB",
    }),
    lazyCloseTimeout: IDLE_MS,
    retryAttempts: 5,
    // A refused token is refused every time.
    shouldRetry: (event) => event instanceof CloseEvent && !(event.code in REASONS) && event.code < 4500,
    on: { connected: () => (mine.open = true), closed: () => (mine.open = false) },
  });
  socket = mine;
  return mine.client;
}

/** The headers editor takes precedence over the signed-in user. */
export function authorizationOf(headers: Record<string, string>): string | undefined {
  const given = header(headers, "authorization");
  if (given !== undefined) return given;
  const token = identity()?.token;
  return token ? `Bearer ${token}` : undefined;
}

export function errorsOf(failure: unknown): Failure[] {
  if (Array.isArray(failure)) return failure as Failure[];
  if (failure instanceof CloseEvent) {
    const reason = REASONS[failure.code] ?? "The connection was closed and could not be restored.";
    return [{ message: reason, extensions: { closeCode: failure.code, closeReason: failure.reason } }];
  }
  return [{ message: failure instanceof Error ? failure.message : "The connection failed: is the server running?" }];
}

/** Sends the later token over the open socket, so that the socket outlives the first token. */
function renew(next: Identity): void {
  if (!socket) return;
  socket.authorization = `Bearer ${next.token}`;
  if (!socket.open) return;
  const query = "mutation Renew($token: String!) { renewAuth(token: $token) }";
  const ignore = () => undefined;
  socket.client.subscribe({ query, variables: { token: next.token } }, { next: ignore, error: ignore, complete: ignore });
}

function hangUp(): void {
  void socket?.client.dispose();
  socket = undefined;
}

function header(headers: Record<string, string>, wanted: string): string | undefined {
  const name = Object.keys(headers).find((key) => key.toLowerCase() === wanted);
  return name === undefined ? undefined : headers[name];
}

/** The user id in the header. The server refuses a value that is not percent-encoded. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return "";
  }
}

let device = "";

/** The device id. It stays the same in one browser tab: voice states and presence belong to it. */
function deviceId(): string {
  try {
    device ||= sessionStorage.getItem(DEVICE) ?? "";
    device ||= randomId();
    sessionStorage.setItem(DEVICE, device);
  } catch {
    // Storage is disabled: the id is kept until the page is closed.
    device ||= randomId();
  }
  return device;
}

/** crypto.randomUUID exists in secure contexts only. */
export function randomId(): string {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
