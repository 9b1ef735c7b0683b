import type { Token } from "@confab/client";
import { useEffect, useState } from "react";

import { restoreToken, signOut } from "../signIn";
import { Chat } from "./Chat";
import { Confirm } from "./Confirm";
import { SignIn } from "./account/SignIn";
import { TwoDevices } from "./account/TwoDevices";
import { useConfirm } from "./useConfirm";

const replacing = (current: string, next: string) => ({
  title: `Sign in as ${next}?`,
  text: `The link contains a token of ${next}. You are signed in as ${current}, and would be signed out.`,
  verb: "Sign in",
});

export function App() {
  const [token, setToken] = useState<Token | null>();
  const [failure, setFailure] = useState("");
  const [confirmation, confirm] = useConfirm();
  const two = new URLSearchParams(location.search).get("view") === "two";

  useEffect(() => {
    if (two) return;
    const mayReplace = (current: string, next: string) => confirm(replacing(current, next));
    restoreToken(mayReplace).then(setToken, (error: Error) => (setFailure(error.message), setToken(null)));
  }, [two]);

  if (two) return <TwoDevices />;
  if (confirmation) return <Confirm {...confirmation} />;
  if (token === undefined) return <p className="waiting" role="status">Loading…</p>;
  if (!token) return <SignIn initialFailure={failure} onToken={setToken} />;
  const leave = (why: string) => (signOut(token.userId), setFailure(why), setToken(null));
  return <Chat key={token.userId} token={token} signedOut={leave} />;
}
