const KEY = "query PushKey { webPushPublicKey devices { id pushPlatform } }";
const REGISTER = `mutation RegisterPush($input: DeviceInput!) {
  registerDevice(input: $input) { id pushPlatform }
}`;
const WANTED = "confab.push"; // in localStorage: the registered endpoint, while pushes are on in this browser
const ACTIVATION_MS = 10_000;

// Pushes to this browser. ask(query, variables) returns a promise of the data of an operation. device: `thisDevice()`. worker: the
// address of push-worker.js. isLookedAt(conversationId): is it on the screen, and is the user there? open(conversationId): show it;
// without an id: the list.
export class WebPush {
  #ask;
  #device;
  #worker;

  constructor({ ask, device, worker, isLookedAt, open }) {
    this.#ask = ask;
    this.#device = device;
    this.#worker = worker;
    navigator.serviceWorker?.addEventListener("message", ({ data, ports }) => {
      if (data.type === "isLookedAt") ports[0].postMessage(isLookedAt(data.conversationId));
      if (data.type === "open") open(data.conversationId);
      if (data.type === "subscriptionChanged") this.resume();
    });
  }

  // False on pages without https, in private windows, and on iPhones until the page is on the Home Screen.
  get isSupported() {
    return globalThis.isSecureContext && "serviceWorker" in navigator && "PushManager" in globalThis;
  }

  // Call it in a click: only then do browsers ask the user. Returns a promise of "on", "denied", or "unavailable": the server has no key.
  // It rejects if the service worker does not become active, and if the browser gets no address from its push service.
  async switchOn() {
    if ((await Notification.requestPermission()) !== "granted") return "denied";
    return this.#register(false);
  }

  // Call it each time the page is opened. It repairs a subscription that expired, or was made with another key.
  async resume() {
    const wanted = localStorage.getItem(WANTED);
    if (!wanted || !this.isSupported || Notification.permission !== "granted") return;
    const { devices } = await this.#ask(KEY);
    const isKnown = devices.some(({ id, pushPlatform }) => id === this.#device.deviceId && pushPlatform === "WEB_PUSH");
    const subscription = await (await this.#registration()).pushManager.getSubscription();
    // The server forgets an address that the push service has given up. Then the browser needs another one.
    await this.#register(!isKnown && subscription?.endpoint === wanted);
  }

  // Call it also when the user signs out: else the next person reads their messages.
  async switchOff() {
    localStorage.removeItem(WANTED);
    const registration = await navigator.serviceWorker?.getRegistration(this.#worker);
    await (await registration?.pushManager?.getSubscription())?.unsubscribe().catch(() => false);
    const { deviceId: id, deviceType: type } = this.#device;
    await this.#ask(REGISTER, { input: { id, type, pushToken: "" } });
  }

  async #register(again) {
    const { webPushPublicKey } = await this.#ask(KEY);
    if (!webPushPublicKey) return "unavailable";
    const subscription = await this.#subscribe(webPushPublicKey, again);
    const { endpoint, keys: { p256dh, auth } } = subscription.toJSON();
    const { deviceId: id, deviceType: type } = this.#device;
    const webPush = { endpoint, p256dh, auth };
    await this.#ask(REGISTER, { input: { id, type, pushPlatform: "WEB_PUSH", webPush, locale: navigator.language } });
    localStorage.setItem(WANTED, endpoint);
    return "on";
  }

  // A browser refuses a second subscription with another key, so the old one is ended first.
  async #subscribe(applicationServerKey, again) {
    const { pushManager } = await this.#registration();
    const old = await pushManager.getSubscription();
    if (old && !again && base64Url(old.options.applicationServerKey) === applicationServerKey) return old;
    await old?.unsubscribe();
    return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  }

  async #registration() {
    return active(await navigator.serviceWorker.register(this.#worker, { updateViaCache: "none" }));
  }
}

// Not `navigator.serviceWorker.ready`: it never resolves if the page is outside the scope of the worker.
async function active(registration) {
  const worker = registration.active ?? registration.waiting ?? registration.installing;
  let timer;
  const activation = new Promise((resolve, reject) => {
    const look = () => {
      if (registration.active) resolve();
      if (!worker || worker.state === "redundant") reject(new Error("The service worker could not be installed."));
    };
    worker?.addEventListener("statechange", look);
    timer = setTimeout(() => reject(new Error("The service worker did not become active in time.")), ACTIVATION_MS);
    look();
  });
  await activation.finally(() => clearTimeout(timer));
  return registration;
}

const base64Url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
