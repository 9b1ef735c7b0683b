import { useEffect, useState } from "react";

import type { Token } from "../confab/client";
import { remembered, signOut } from "../signIn";
import { Chat } from "./Chat";
import { SignIn } from "./SignIn";
import { TwoDevices } from "./TwoDevices";

export function App() {
  const [token, setToken] = useState<Token | null>();
  const [trouble, setTrouble] = useState("");
  const two = new URLSearchParams(location.search).get("view") === "two";

  useEffect(() => {
    if (!two) remembered().then(setToken, (error: Error) => (setTrouble(error.message), setToken(null)));
  }, [two]);

  if (two) return <TwoDevices />;
  if (token === undefined) return <p className="waiting" role="status">Loading…</p>;
  if (!token) return <SignIn trouble={trouble} onToken={setToken} />;
  const leave = (why: string) => (signOut(token.userId), setTrouble(why), setToken(null));
  return <Chat key={token.userId} token={token} signedOut={leave} />;
}
