// The service worker that shows pushes. Serve it from your own origin, without a long cache time, and set these three.
const PAGE = "/";
const ICON = "/icon.png";
const addressOf = (conversationId) => `${PAGE}#/c/${conversationId}`;

self.addEventListener("push", (event) => event.waitUntil(take(read(event.data))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.conversationId));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

// A push: { title, body, conversationId, badge, tag }, or a quiet one: { quiet: true, conversationId, badge, tag }.
function read(data) {
  let push = {};
  try {
    push = Object(data.json());
  } catch {
    // Not JSON. It must not throw: browsers expect a notification for each push.
  }
  const text = (name) => (typeof push[name] === "string" ? push[name] : "");
  const texts = { title: text("title"), body: text("body"), conversationId: text("conversationId"), tag: text("tag") };
  return { ...texts, badge: push.badge, quiet: push.quiet === true };
}

async function take({ title, body, conversationId, badge, tag, quiet }) {
  if (badge >= 0) await self.navigator.setAppBadge?.(badge).catch(() => {});
  // Chrome shows a notification of its own if pushes often showed nothing.
  await close("user_visible_auto_notification");
  if (quiet || (await isLookedAt(conversationId))) return close(tag);
  const options = { body: body || (title ? "" : "You have new messages."), icon: ICON, data: { conversationId } };
  await self.registration.showNotification(title || "Confab", { ...options, tag: tag || "confab", renotify: true });
}

async function close(tag) {
  for (const each of await self.registration.getNotifications({ tag })) each.close();
}

const windows = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });

// Asks the windows whether the conversation is on the screen. A window that does not answer does not show it.
async function isLookedAt(conversationId) {
  const answers = (await windows()).map((window) => new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    setTimeout(resolve, 500, false);
    window.postMessage({ type: "isLookedAt", conversationId }, [port2]);
  }));
  return (await Promise.all(answers)).includes(true);
}

async function open(conversationId) {
  const [window] = await windows();
  if (!window) return self.clients.openWindow(conversationId ? addressOf(conversationId) : PAGE);
  window.postMessage({ type: "open", conversationId });
  return window.focus();
}

// The browser has replaced or ended the subscription. The page tells the server, now or when it is opened next: it has the token.
async function renew({ oldSubscription, newSubscription }) {
  const options = oldSubscription?.options;
  if (!newSubscription && options) await self.registration.pushManager.subscribe(options).catch(() => {});
  for (const window of await windows()) window.postMessage({ type: "subscriptionChanged" });
}
