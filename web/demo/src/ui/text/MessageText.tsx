import type { Message } from "@confab/client";
import { Fragment, useMemo, type ReactNode } from "react";

import { isOnlyEmoji, readMarkup, type Mark } from "./markup";
import "./text.css";

type Props = Pick<Message, "content"> & Partial<Pick<Message, "mentions" | "mentionsAll">>;

/** The text of a message with its markup. A few emoji alone are large. */
export function MessageText({ content, mentions, mentionsAll }: Props): ReactNode {
  const marks = useMemo(() => {
    const names = [...(mentions ?? []).map((each) => `@${each.displayName}`), ...(mentionsAll ? ["@everybody"] : [])];
    return readMarkup(content ?? "", names);
  }, [content, mentions, mentionsAll]);
  return (
    <div className={content && isOnlyEmoji(content) ? "text emoji" : "text"} dir="auto">
      {elementsOf(marks)}
    </div>
  );
}

const elementsOf = (marks: readonly Mark[]): ReactNode => marks.map((mark, index) => <Fragment key={index}>{elementOf(mark)}</Fragment>);

function elementOf(mark: Mark): ReactNode {
  switch (mark.kind) {
    case "text":
      return mark.text;
    case "break":
      return <br />;
    case "bold":
      return <strong>{elementsOf(mark.inner)}</strong>;
    case "italic":
      return <em>{elementsOf(mark.inner)}</em>;
    case "struck":
      return <s>{elementsOf(mark.inner)}</s>;
    case "code":
      return <code dir="ltr">{mark.text}</code>;
    case "codeBlock":
      // Long lines scroll, so the keyboard has to reach it.
      return <pre dir="ltr" tabIndex={0}><code>{mark.text}</code></pre>;
    case "mention":
      return <bdi className="mentioned">{mark.text}</bdi>;
    case "quote":
      return <blockquote className="quotation" dir="auto">{elementsOf(mark.inner)}</blockquote>;
    case "link":
      return (
        <a href={mark.href} target="_blank" rel="noopener noreferrer">
          {elementsOf(mark.inner)}
          {mark.host && <span className="host"> ({mark.host})</span>}
        </a>
      );
    case "list": {
      const items = mark.items.map((item, index) => <li key={index}>{elementsOf(item)}</li>);
      return mark.first === null ? <ul>{items}</ul> : <ol start={mark.first}>{items}</ol>;
    }
  }
}
