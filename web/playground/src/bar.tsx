import { useEffect, useState, useSyncExternalStore } from "react";

import { describe, identity, onIdentity, people, signInAs, takeToken, type Person } from "./identity";
import { notice, onNotice, setNotice } from "./notice";

/** The signed-in user, and switching to another. `controls` is the place of GraphiQL's own controls. */
export function Bar({ controls }: { controls: (element: HTMLElement | null) => void }) {
  const [who, setWho] = useState(identity);
  const [known, setKnown] = useState<Person[] | null>(null);
  const [failure, setFailure] = useState("");
  const [, tick] = useState(0);
  useEffect(() => onIdentity(setWho), []);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 20_000);
    return () => clearInterval(timer);
  }, []);
  const become = (person: Person) => {
    setFailure("");
    signInAs(person).catch((error: Error) => setFailure(error.message));
  };
  useEffect(() => {
    void people().then((found) => {
      setKnown(found);
      const wanted = found.find((person) => person.id === new URLSearchParams(location.search).get("as"));
      // The first example is made for the first person.
      const next = wanted ?? (identity() ? undefined : found[0]);
      if (next && identity()?.person?.id !== next.id) become(next);
    });
  }, []);
  const { good, text } = describe(who);
  return (
    <header className="bar">
      <h1>
        Confab <span>Playground</span>
      </h1>
      {known && known.length > 0 ? (
        <nav aria-label="Sign in">
          {known.map((person) => (
            <button
              key={person.id}
              type="button"
              className="person"
              aria-label={`Sign in as ${person.displayName}`}
              aria-pressed={who?.person?.id === person.id}
              title={`Sign in as ${person.displayName}`}
              onClick={() => become(person)}
            >
              <i data-initials={initials(person.displayName)} />
              {person.displayName.split(" ")[0]}
            </button>
          ))}
        </nav>
      ) : null}
      {known && known.length === 0 ? <TokenField /> : null}
      <p role="status" className={failure || !good ? "trouble" : "fine"}>
        {failure || text}
      </p>
      <div className="controls" ref={controls} />
      <NoticeLine signIn={become} />
    </header>
  );
}

function NoticeLine({ signIn }: { signIn: (person: Person) => void }) {
  const shown = useSyncExternalStore(onNotice, notice);
  const person = shown?.signIn;
  const accept = () => {
    if (person) signIn(person);
    setNotice(null);
  };
  return (
    <div className="notice" role="status">
      {shown ? (
        <>
          <span>{shown.text}</span>
          {person ? (
            <button type="button" onClick={accept}>
              Sign in as {person.displayName.split(" ")[0]}
            </button>
          ) : null}
          <button type="button" aria-label="Close this notice" title="Close this notice" onClick={() => setNotice(null)}>
            <span aria-hidden="true">×</span>
          </button>
        </>
      ) : null}
    </div>
  );
}

function TokenField() {
  const [token, setToken] = useState(() => identity()?.token ?? "");
  const [shown, setShown] = useState(false);
  useEffect(() => onIdentity((next) => setToken((typed) => (next && next.token !== typed ? next.token : typed))), []);
  const change = (text: string) => {
    setToken(text);
    takeToken(text);
  };
  return (
    <form className="token" onSubmit={(event) => event.preventDefault()}>
      <label htmlFor="token">Token</label>
      <input
        id="token"
        type={shown ? "text" : "password"}
        value={token}
        autoComplete="off"
        spellCheck={false}
        placeholder="eyJ…"
        onChange={(event) => change(event.target.value)}
      />
      <button type="button" aria-pressed={shown} onClick={() => setShown(!shown)}>
        {shown ? "Hide" : "Show"}
      </button>
      <button type="button" onClick={() => change("")}>
        Forget
      </button>
    </form>
  );
}

const initials = (name: string) =>
  name
    .split(" ")
    .map((part) => part[0])
    .join("");
