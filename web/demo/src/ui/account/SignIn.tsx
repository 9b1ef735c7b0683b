import type { Token } from "@confab/client";
import { useEffect, useState } from "react";

import { loadPeople, signIn, signInWithToken, type Person } from "../../signIn";
import logo from "../../logo.svg";
import { Avatar } from "../Avatar";
import { ThemeSwitch } from "./ThemeSwitch";

export function SignIn({ initialFailure, onToken }: { initialFailure: string; onToken: (token: Token) => void }) {
  const [people, setPeople] = useState<Person[] | null>();
  const [failure, setFailure] = useState(initialFailure);
  const [token, setToken] = useState("");
  useEffect(() => void loadPeople().then(setPeople), []);

  return (
    <main className="sign-in">
      <ThemeSwitch />
      <div className="sign-in-card">
        <img src={logo} alt="" width="56" height="56" />
        <h1>Confab</h1>
        <p className="lead">A small chat on Confab's GraphQL API.</p>
        {failure && <p role="alert" className="failure">{failure}</p>}
        {people === undefined && <p role="status">Loading…</p>}
        {people && (
          <>
            <ul className="sign-in-people" aria-label="People">
              {people.map((person) => (
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
        {people === null && (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              signInWithToken(token.trim()).then(onToken, (error: Error) => setFailure(error.message));
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
