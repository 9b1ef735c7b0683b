import type { Token } from "@confab/client";
import { useEffect, useState } from "react";

import { people, signIn, signInWith, type Person } from "../../signIn";
import logo from "../../logo.svg";
import { Avatar } from "../Avatar";
import { ThemeSwitch } from "./ThemeSwitch";

export function SignIn({ trouble, onToken }: { trouble: string; onToken: (token: Token) => void }) {
  const [cast, setCast] = useState<Person[] | null>();
  const [failure, setFailure] = useState(trouble);
  const [token, setToken] = useState("");
  useEffect(() => void people().then(setCast), []);

  return (
    <main className="sign-in">
      <ThemeSwitch />
      <div className="sign-in-card">
        <img src={logo} alt="" width="56" height="56" />
        <h1>Confab</h1>
        <p className="lead">A small chat on Confab's GraphQL API.</p>
        {failure && <p role="alert" className="trouble">{failure}</p>}
        {cast === undefined && <p role="status">Loading…</p>}
        {cast && (
          <>
            <ul className="cast" aria-label="People">
              {cast.map((person) => (
                <li key={person.id}>
                  <button
                    aria-label={`Sign in as ${person.displayName}`}
                    onClick={() => signIn(person.id).then(onToken, (error: Error) => setFailure(error.message))}
                  >
                    <Avatar id={person.id} name={person.displayName} />
                    <span>{person.displayName}</span>
                  </button>
                </li>
              ))}
            </ul>
            <a className="button quiet" href="?view=two">Two devices side by side</a>
          </>
        )}
        {cast === null && (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              signInWith(token.trim()).then(onToken, (error: Error) => setFailure(error.message));
            }}
          >
            <label>
              Token
              <input value={token} onChange={(event) => setToken(event.target.value)} autoComplete="off" spellCheck={false} required />
            </label>
            <button className="button">Sign in</button>
          </form>
        )}
      </div>
    </main>
  );
}
