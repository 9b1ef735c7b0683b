import { find } from "linkifyjs";
import { Fragment, type ReactNode } from "react";

import type { MessagePartsFragment } from "../gql";

/** Other texts with a dot in them, such as readme.md, are no links. */
const BEGINS_LIKE_A_LINK = /^(https?:\/\/|www\.)/i;

type Words = Pick<MessagePartsFragment, "content"> & Partial<Pick<MessagePartsFragment, "mentions" | "mentionsAll">>;

/** The text of a message, with links (http and https only) and highlighted mentions. */
export function Words({ content, mentions = [], mentionsAll }: Words): ReactNode {
  if (!content) return content;
  const names = [...mentions.map((each) => `@${each.displayName}`), ...(mentionsAll ? ["@everybody"] : [])];
  const links = find(content, "url", { defaultProtocol: "https" }).filter(({ value }) => BEGINS_LIKE_A_LINK.test(value));
  return [...links, null].map((link, index) => {
    const plain = content.slice(links[index - 1]?.end ?? 0, link?.start);
    return (
      <Fragment key={index}>
        {marked(plain, names)}
        {link && <a href={link.href} target="_blank" rel="noopener noreferrer">{link.value}</a>}
      </Fragment>
    );
  });
}

function marked(text: string, names: string[]): ReactNode {
  if (!names.length) return text;
  const escaped = names.map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(new RegExp(`(${escaped.join("|")})`)).map((part, index) => (
    <Fragment key={index}>{names.includes(part) ? <b className="mentioned">{part}</b> : part}</Fragment>
  ));
}
