import { useGraphiQL, type GraphiQLPlugin } from "@graphiql/react";
import { useState } from "react";

import { EXAMPLES, type Example } from "./examples";
import { openExample } from "./opening";

export const EXAMPLES_PLUGIN: GraphiQLPlugin = { title: "Examples", icon: Icon, content: ExampleList };

const AREAS = [...new Set(EXAMPLES.map(({ area }) => area))];
const FIRST_AREA = AREAS[0]!;

/** The areas that are open. Kept outside the component, because GraphiQL removes it while it displays another plugin. */
const opened = new Set([FIRST_AREA]);

/** Example operations by area. Each opens in a tab. */
function ExampleList() {
  const [sought, setSought] = useState("");
  const shownText = useGraphiQL((state) => state.tabs[state.activeTabIndex]?.query);
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
  const found = EXAMPLES.filter((example) => matches(example, words));
  return (
    <section className="examples" aria-label="Examples">
      <header>
        <h2>Examples</h2>
        <input
          type="search"
          aria-label="Find an example"
          placeholder="Find: reaction, joinVoice…"
          value={sought}
          onChange={(event) => setSought(event.target.value)}
        />
        <p className="sr-only" role="status">
          {words.length > 0 ? `${found.length} found` : ""}
        </p>
      </header>
      {found.length === 0 ? <p className="nothing">No example has these words.</p> : null}
      {AREAS.map((area) => {
        const inArea = found.filter((example) => example.area === area);
        return inArea.length > 0 ? (
          <Area key={`${area} ${words.length > 0}`} area={area} isFound={words.length > 0} count={inArea.length}>
            {inArea.map((example) => (
              <Row key={example.name} example={example} isShown={example.text === shownText} />
            ))}
          </Area>
        ) : null;
      })}
    </section>
  );
}

function Area({ area, isFound, count, children }: { area: string; isFound: boolean; count: number; children: React.ReactNode }) {
  const [isOpen, setIsOpen] = useState(isFound || opened.has(area));
  const toggle = () => {
    setIsOpen(!isOpen);
    if (isFound) return;
    if (isOpen) opened.delete(area);
    else opened.add(area);
  };
  return (
    <div className="area">
      <h3>
        <button type="button" aria-expanded={isOpen} onClick={toggle}>
          {area} <span className="count">{count}</span>
        </button>
      </h3>
      {isOpen ? <ul>{children}</ul> : null}
    </div>
  );
}

function Row({ example, isShown }: { example: Example; isShown: boolean }) {
  const open = () => {
    void openExample(example);
    // On a phone the list covers the tabs.
    if (matchMedia("(max-width: 40rem)").matches) toggleList();
  };
  return (
    <li>
      <button type="button" aria-current={isShown || undefined} onClick={open}>
        <span className="title">{example.title}</span> <span className={`kind ${example.kind}`}>{example.kind}</span>
      </button>
    </li>
  );
}

/** Opens and closes the list. GraphiQL's own icons at the side are hard to find on small screens. */
export function ExamplesButton() {
  const isOpen = useGraphiQL((state) => state.visiblePlugin === EXAMPLES_PLUGIN);
  return (
    <button type="button" aria-expanded={isOpen} onClick={toggleList}>
      Examples
    </button>
  );
}

/** GraphiQL has an action that selects a plugin, but only its own button also makes room for it. */
function toggleList(): void {
  document.querySelector<HTMLElement>(`.graphiql-sidebar [aria-label$=" ${EXAMPLES_PLUGIN.title}"]`)?.click();
}

function matches({ area, title, text }: Example, words: string[]): boolean {
  const all = `${area} ${title} ${text}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

function Icon() {
  return (
    <svg height="1em" viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" strokeLinejoin="round">
      <path d="M4 6h.01M4 12h.01M4 18h.01M9 6h11M9 12h11M9 18h11" />
    </svg>
  );
}
