import { createClient, type Token } from "@confab/client";
import { ConfabProvider } from "@confab/client/react";
import { createRoot } from "react-dom/client";
import { Chat } from "./Chat";

/** Your sign-in service goes here. A server in development gives tokens to everybody. */
async function signIn(userId: string): Promise<Token> {
  const body = new Blob([JSON.stringify({ userId })], { type: "application/json" });
  const response = await fetch("/dev/sign-in", { method: "POST", body });
  if (!response.ok) throw new Error(`Signing in was refused: ${response.status}`);
  return response.json();
}
const user = new URLSearchParams(location.search).get("as") ?? "alice";
let token = await signIn(user);
const client = createClient({
  url: new URL("/graphql", location.href).href,
  tokens: { current: () => token, renew: async () => (token = await signIn(user)) },
  device: { deviceId: (localStorage.deviceId ??= crypto.randomUUID()), deviceType: "WEB" },
});
const page = createRoot(document.getElementById("chat")!);
page.render(<ConfabProvider client={client}><Chat /></ConfabProvider>);
