import type { Message } from "@confab/client";
import { useState, type CSSProperties } from "react";

import { reachableAddress } from "../../confab/addresses";
import { time, day } from "../format";

type Embed = Message["embeds"][number];

/** Previews of a message's links, and cards of bots. */
export function Embeds({ embeds }: { embeds: readonly Embed[] }) {
  return <div className="embeds">{embeds.map((each, index) => <Card key={each.url ?? index} embed={each} />)}</div>;
}

const isLink = (url: string) => /^https?:\/\//i.test(url);

function Card({ embed }: { embed: Embed }) {
  const { url, title, description, siteName, authorName, color, fields, publishedAt } = embed;
  const image = embed.image ?? embed.thumbnail;
  const large = embed.type === "IMAGE" || embed.type === "VIDEO" || !!embed.image;
  const heading = title ?? (embed.type === "IMAGE" ? null : url);
  const style = color && /^#[0-9a-f]{6}$/i.test(color) ? ({ "--stripe": color } as CSSProperties) : undefined;
  return (
    <aside className={large ? "embed large" : "embed"} style={style} aria-label={`Preview: ${title ?? siteName ?? url ?? ""}`}>
      <div className="embed-text">
        {(siteName ?? authorName) && <p className="site" dir="auto">{[siteName, authorName].filter(Boolean).join(" · ")}</p>}
        {heading && <p className="title" dir="auto">{url && isLink(url) ? <a href={url} target="_blank" rel="noopener noreferrer">{heading}</a> : heading}</p>}
        {description && <p className="description" dir="auto">{description}</p>}
        {fields.length > 0 && (
          <dl>{fields.map((each, index) => <div key={index} className={each.inline ? "inline" : undefined}><dt dir="auto">{each.name}</dt><dd dir="auto">{each.value}</dd></div>)}</dl>
        )}
        {publishedAt && <p className="site"><time dateTime={publishedAt}>{day(publishedAt)}, {time(publishedAt)}</time></p>}
      </div>
      {image && <EmbedPicture {...image} />}
    </aside>
  );
}

function EmbedPicture({ url, width, height }: { url: string; width: number | null; height: number | null }) {
  const [broken, setBroken] = useState(false);
  if (broken) return null;
  return <img src={reachableAddress(url)} width={width ?? undefined} height={height ?? undefined} alt="" loading="lazy" onError={() => setBroken(true)} />;
}
