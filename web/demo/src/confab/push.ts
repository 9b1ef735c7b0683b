/**
 * Pushes to this browser: permission, subscription, and what the server knows of it.
 *
 * Guarantees: "on" means that the browser has a subscription with the server's present key, and that the server has its address. When
 * the page is opened, a lost subscription is renewed: it expired, the key changed, or the push service gave it up. It ends
 * when the user signs out or another user signs in, so that no one gets the messages of the previous user.
 */
import type { ConfabClient, Device } from "@confab/client";

import { RegisterPushDocument, RemovePushDocument, TestPushDocument, WebPushDocument, type PushOutcome } from "../gql";
import { disk } from "./disk";
import { NO_NETWORK, errorText } from "./errorText";
import type { FromWorker } from "./workerMessages";

/** insecure: neither https nor this machine. framed: part of another page. unavailable: the server has no key for Web Push. */
export type PushState = "checking" | "insecure" | "unsupported" | "framed" | "unavailable" | "denied" | "off" | "on";

export interface Push {
  state(): PushState;
  /** True if it was switched on here, and not off since. */
  isWanted(): boolean;
  onChange(listener: () => void): () => void;
  /** Checks the state, and renews a lost subscription. Never rejects. */
  refresh(): Promise<void>;
  /** Call it in a click: browsers ask for the permission only then. Resolves to a message about a failure, or null. */
  switchOn(): Promise<string | null>;
  switchOff(): Promise<string | null>;
  /** Resolves to the result, and a message about it. */
  test(): Promise<{ isAccepted: boolean; message: string }>;
  /** Ends the subscription. Resolves after 2 s at the latest. */
  signOut(): Promise<void>;
  stop(): void;
}

export interface PushHandlers {
  isOnScreen: (conversationId: string) => boolean;
  open: (conversationId: string | null) => void;
}

const WORKER = "/demo/sw.js";
const SCOPE = "/demo/";
const WANTED = ".push";
const SIGN_OUT_MS = 2_000;

const OUTCOMES: Record<PushOutcome, string> = {
  ACCEPTED: "Sent. The notification appears in a moment.",
  GONE: "The push service does not know this browser any more. Switch notifications off and on again.",
  REFUSED: "The push service refused it.",
  UNREACHABLE: "The push service did not answer. Try again later.",
  NOT_CONFIGURED: "This server sends no pushes to browsers.",
};

/** Why this page cannot get pushes, independent of the user and the server; null if it can. */
function obstacle(): PushState | null {
  if (!isSecureContext) return "insecure";
  if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window)) return "unsupported";
  // All frames of a browser would share one subscription.
  return window === window.top ? null : "framed";
}

async function worker(): Promise<ServiceWorkerRegistration> {
  const registration = await navigator.serviceWorker.register(WORKER, { scope: SCOPE, updateViaCache: "none" });
  const coming = registration.installing ?? registration.waiting;
  // `navigator.serviceWorker.ready` never resolves, because the page is outside of the scope.
  if (!registration.active && coming) {
    await new Promise<void>((resolve, reject) => {
      coming.addEventListener("statechange", () => (coming.state === "activated" ? resolve() : coming.state === "redundant" && reject(new Error("no worker"))));
    });
  }
  return registration;
}

const currentSubscription = async () => (await (await navigator.serviceWorker.getRegistration(SCOPE))?.pushManager.getSubscription()) ?? null;

const base64Url = (bytes: ArrayBuffer) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

/** Returns the subscription with this key. A browser refuses a second one with another key, so the old one is ended. */
async function subscribe(key: string, again: boolean): Promise<PushSubscription> {
  const { pushManager } = await worker();
  const old = await pushManager.getSubscription();
  const used = old?.options.applicationServerKey;
  if (old && !again && (!used || base64Url(used) === key.replace(/=+$/, ""))) return old;
  await old?.unsubscribe();
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

export function openPush({ api, userId }: ConfabClient, { deviceId, deviceType }: Device, storagePrefix: string, handlers: PushHandlers): Push {
  /** The registered endpoint, while pushes are on here. */
  const wanted = `${storagePrefix}.${userId}${WANTED}`;
  const listeners = new Set<() => void>();
  let state: PushState = obstacle() ?? "checking";
  const setState = (next: PushState) => {
    if (next === state) return;
    state = next;
    listeners.forEach((changed) => changed());
  };

  const loadStatus = () => api.request(WebPushDocument, {}).catch(() => null);

  const register = async (key: string, again: boolean): Promise<string | null> => {
    let subscription: PushSubscription;
    try {
      subscription = await subscribe(key, again);
    } catch {
      return "The browser did not get an address from its push service. Private windows have no push. Otherwise, try again later.";
    }
    const { endpoint, keys } = subscription.toJSON();
    const webPush = { endpoint: endpoint!, p256dh: keys!.p256dh!, auth: keys!.auth! };
    try {
      await api.request(RegisterPushDocument, { id: deviceId, type: deviceType, webPush, locale: navigator.language || null });
    } catch (error) {
      return errorText(error);
    }
    disk.set(wanted, webPush.endpoint);
    setState("on");
    return null;
  };

  const refresh = async () => {
    const stopped = obstacle();
    if (stopped) return setState(stopped);
    const answer = await loadStatus();
    if (!answer) return;
    const { webPushPublicKey: key, devices } = answer;
    if (!key) return setState("unavailable");
    if (Notification.permission === "denied") return setState("denied");
    if (disk.get(wanted) === null || Notification.permission !== "granted") return setState("off");
    const isKnown = devices.some(({ id, pushPlatform }) => id === deviceId && pushPlatform === "WEB_PUSH");
    const now = (await currentSubscription())?.endpoint;
    // The server forgets an address that the push service has given up: then the browser needs another one.
    const isGone = !isKnown && now === disk.get(wanted);
    if ((await register(key, isGone)) !== null) setState("off");
  };
  // Calls run one after another: two at the same time might both subscribe.
  let turn = Promise.resolve();
  const inTurn = <Result>(act: () => Promise<Result>): Promise<Result> => {
    const result = turn.then(act);
    turn = result.then(() => {}, () => {});
    return result;
  };
  const refreshInTurn = () => inTurn(refresh).catch(() => {});

  const remove = async () => {
    disk.remove(wanted);
    await (await currentSubscription())?.unsubscribe().catch(() => false);
    return api.request(RemovePushDocument, { id: deviceId, type: deviceType }).then(() => null, errorText);
  };

  /** Ends the subscription of another user who did not sign out here. The server learns this from the push service. */
  const endOthers = async () => {
    const others = disk.names(`${storagePrefix}.`).filter((name) => name.endsWith(WANTED) && name !== wanted);
    if (others.length) await (await currentSubscription())?.unsubscribe();
    others.forEach(disk.remove);
  };

  const alive = new AbortController();
  const { signal } = alive;
  if (!obstacle()) {
    const onMessage = ({ data, ports }: MessageEvent<FromWorker>) => {
      if (data.type === "isOnScreen") ports[0]?.postMessage(handlers.isOnScreen(data.conversationId));
      if (data.type === "open") handlers.open(data.conversationId);
      if (data.type === "subscriptionChanged") void refreshInTurn();
    };
    navigator.serviceWorker.addEventListener("message", onMessage, { signal });
    navigator.serviceWorker.startMessages();
    void inTurn(endOthers).catch(() => {});
    // The user may change the permission in the browser's own settings.
    void navigator.permissions?.query({ name: "notifications" }).then((permission) => permission.addEventListener("change", () => void refreshInTurn(), { signal }), () => {});
  }

  return {
    state: () => state,
    isWanted: () => disk.get(wanted) !== null,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    refresh: refreshInTurn,
    switchOn: async () => {
      const permission = await Notification.requestPermission();
      if (permission === "denied") setState("denied");
      if (permission !== "granted") return null;
      return inTurn(async () => {
        const answer = await loadStatus();
        if (!answer) return NO_NETWORK;
        if (answer.webPushPublicKey) return register(answer.webPushPublicKey, false);
        setState("unavailable");
        return null;
      });
    },
    switchOff: () =>
      inTurn(async () => {
        const failure = await remove();
        setState("off");
        return failure;
      }),
    test: async () => {
      try {
        const { outcome, reason } = (await api.request(TestPushDocument, { id: deviceId })).testPush;
        return { isAccepted: outcome === "ACCEPTED", message: reason ? `${OUTCOMES[outcome]} Details: ${reason}` : OUTCOMES[outcome] };
      } catch (error) {
        return { isAccepted: false, message: errorText(error) };
      }
    },
    signOut: () => {
      if (obstacle() || disk.get(wanted) === null) return Promise.resolve();
      const late = new Promise<void>((resolve) => setTimeout(resolve, SIGN_OUT_MS));
      return Promise.race([inTurn(remove).then(() => {}, () => {}), late]);
    },
    stop: () => {
      alive.abort();
      listeners.clear();
    },
  };
}
