import type { ReactNode } from "react";

interface Props<Row> {
  label: string;
  pages: { rows: Row[] | null; failure: string | null; more: (() => void) | null; reload: () => void };
  /** Rows are divided by lines instead of standing in frames. */
  plain?: boolean;
  /** Shown if the list is empty: a title, and a sentence. */
  empty: [title: string, text: string];
  children: (row: Row) => ReactNode;
}

/** A list with its states: loading, not loaded, empty, and with more to load. */
export function List<Row>({ label, pages: { rows, failure, more, reload }, plain, empty, children }: Props<Row>) {
  if (failure) return <p className="moderation-note" role="alert">{failure} <button className="link" onClick={reload}>Try again</button></p>;
  if (!rows) return <div className="skeletons" role="status" aria-label="Loading">{[1, 2, 3].map((each) => <i key={each} />)}</div>;
  if (!rows.length) return <div className="moderation-note"><b>{empty[0]}</b>{empty[1]}</div>;
  return (
    <>
      <ul className={plain ? "moderation-list plain" : "moderation-list"} aria-label={label}>{rows.map(children)}</ul>
      {more && <button className="button quiet" onClick={more}>Show more</button>}
    </>
  );
}
