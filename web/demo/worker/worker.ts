/**
 * The service worker of the demo: it shows pushes as notifications, also while no page is open.
 *
 * Guarantees: there is one notification per conversation; a later push replaces it, and a quiet one removes it. A push with unreadable
 * contents shows a general notification. Nothing here needs a token: the page tells the server about the subscription.
 */
import type { FromWorker } from "../src/confab/workerMessages";
import icon from "./icon.png";
import sign from "./sign.png";

declare const self: ServiceWorkerGlobalScope;

/** The page, which is outside of this worker's scope. */
const PAGE = "/demo";
const ANSWER_WITHIN_MS = 500;

interface Push {
  title: string;
  body: string;
  conversationId: string | null;
  badge: number | null;
  tag: string;
  isQuiet: boolean;
}

/** Options that TypeScript's types do not have. renotify: alert the user again when a notification is replaced. */
type Options = NotificationOptions & { renotify?: boolean };

self.addEventListener("install", () => void self.skipWaiting());
self.addEventListener("push", (event) => event.waitUntil(handlePush(read(event.data))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { conversationId } = (event.notification.data ?? {}) as { conversationId?: string | null };
  event.waitUntil(open(conversationId ?? null));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event as PushSubscriptionChangeEvent)));

/** Never throws: missing values, and values of another type, are replaced. */
function read(data: PushMessageData | null): Push {
  let fields: Record<string, unknown> = {};
  try {
    fields = Object(data?.json()) as Record<string, unknown>;
  } catch {
    // Not JSON.
  }
  const text = (name: string) => (typeof fields[name] === "string" ? fields[name] : "");
  const { badge } = fields;
  return {
    title: text("title") || "Confab",
    body: text("body") || (text("title") ? "" : "You have new messages."),
    conversationId: text("conversationId") || null,
    badge: Number.isSafeInteger(badge) && Number(badge) >= 0 ? Number(badge) : null,
    tag: text("tag") || "confab",
    isQuiet: fields.quiet === true,
  };
}

async function handlePush(push: Push): Promise<void> {
  if (push.badge !== null) await self.navigator.setAppBadge?.(push.badge).catch(() => {});
  await close(LEFT_BY_CHROME);
  if (push.isQuiet || (await isOnScreen(push.conversationId))) return remove(push);
  const { body, tag, conversationId } = push;
  const options: Options = { body, tag, icon, badge: sign, renotify: true, data: { conversationId } };
  await self.registration.showNotification(push.title, options);
}

/** Chrome shows a notification of its own with this tag if pushes often showed nothing. */
const LEFT_BY_CHROME = "user_visible_auto_notification";

/** WebKit takes the subscription away after a few pushes that showed nothing. The server sends no quiet ones there. */
const MUST_SHOW = /^(?!.*Chrom).*Safari/.test(self.navigator.userAgent);

/** Removes the notification of a conversation. */
async function remove({ title, tag }: Push): Promise<void> {
  if (MUST_SHOW) await self.registration.showNotification(title, { tag, silent: true });
  await close(tag);
}

async function close(tag: string): Promise<void> {
  for (const each of await self.registration.getNotifications({ tag })) each.close();
}

const windows = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });
const postTo = (client: Client, message: FromWorker, transfer: Transferable[] = []) => client.postMessage(message, transfer);

/** Whether the conversation is on the screen. Each window has to answer, because `client.url` may be an earlier address of it. */
async function isOnScreen(conversationId: string | null): Promise<boolean> {
  if (conversationId === null) return false;
  const visible = (await windows()).filter((each) => each.visibilityState === "visible");
  const answers = await Promise.all(
    visible.map((each) => {
      const { port1, port2 } = new MessageChannel();
      return new Promise<boolean>((resolve) => {
        port1.onmessage = ({ data }) => resolve(data === true);
        setTimeout(() => resolve(false), ANSWER_WITHIN_MS);
        postTo(each, { type: "isOnScreen", conversationId }, [port2]);
      });
    }),
  );
  return answers.includes(true);
}

/** Shows the conversation in a window that is open, or in a new one. */
async function open(conversationId: string | null): Promise<void> {
  const isPage = ({ url, frameType }: WindowClient) => frameType === "top-level" && new URL(url).pathname === PAGE;
  const [page] = (await windows()).filter(isPage).sort((a, b) => Number(b.focused) - Number(a.focused));
  if (!page) return void (await self.clients.openWindow(conversationId ? `${PAGE}#/c/${conversationId}` : PAGE));
  postTo(page, { type: "open", conversationId });
  await page.focus();
}

/** The browser has ended the subscription. Windows tell the server about the next one; without a window, the next one that opens does. */
async function renew({ oldSubscription, newSubscription }: PushSubscriptionChangeEvent): Promise<void> {
  const applicationServerKey = oldSubscription?.options.applicationServerKey;
  if (!newSubscription && applicationServerKey) {
    await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey }).catch(() => {});
  }
  for (const each of await windows()) postTo(each, { type: "subscriptionChanged" });
}
