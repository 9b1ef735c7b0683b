import { useState, type CSSProperties, type MouseEvent, type ReactNode } from "react";

import { reachable } from "../../confab/addresses";
import { blurred } from "../../confab/thumbHash";
import { Icon } from "../Icon";
import { useWorld } from "../world";
import { Lightbox } from "./Lightbox";
import { useFile } from "./useFiles";
import { isPicture, size, type MessageFile } from "./words";

const WIDEST_PX = 340;
const HIGHEST_PX = 360;
const NARROWEST_PX = 120;

/** The files of a message: pictures together, then players and cards. */
export function Attachments({ files }: { files: readonly MessageFile[] }) {
  const [open, setOpen] = useState<number | null>(null);
  const pictures = files.filter((each) => each.url && isPicture(each.contentType));
  const others = files.filter((each) => !pictures.includes(each));
  return (
    <div className="attachments">
      {pictures.length > 0 && (
        <div className="gallery" data-count={Math.min(pictures.length, 4)}>
          {pictures.map((each, index) => <Picture key={each.id} file={each} alone={pictures.length === 1} open={() => setOpen(index)} />)}
        </div>
      )}
      {others.map((each) => (
        <Hidden key={each.id} when={each.spoiler}>
          {each.url && /^(video|audio)\//.test(each.contentType) ? <Player file={each} /> : <FileCard file={each} />}
        </Hidden>
      ))}
      {open !== null && <Lightbox pictures={pictures} first={open} close={() => setOpen(null)} />}
    </div>
  );
}

/** The space of a picture, known before it is loaded. */
function space(width: number | null, height: number | null): CSSProperties {
  if (!width || !height) return { width: WIDEST_PX, aspectRatio: "4 / 3" };
  const scale = Math.min(1, WIDEST_PX / width, HIGHEST_PX / height);
  return { width: Math.max(NARROWEST_PX, Math.round(width * scale)), aspectRatio: `${width} / ${height}` };
}

const meanwhile = (file: MessageFile, localPicture: string | null): CSSProperties => {
  const picture = localPicture ?? (file.thumbHash && blurred(file.thumbHash));
  return picture ? { backgroundImage: `url("${picture}")` } : {};
};

function Picture({ file: given, alone, open }: { file: MessageFile; alone: boolean; open: () => void }) {
  const { uploads } = useWorld();
  const [hidden, setHidden] = useState(given.spoiler);
  const { file, askAfterError, attempt } = useFile(given);
  const label = file.description ?? file.filename;
  const sources = [[file.small, 320], [file.medium, 640], [file.large, 1280]].flatMap(([url, width]) => (url ? [`${reachable(String(url))} ${width}w`] : []));
  return (
    <button
      type="button"
      className={hidden ? "picture hidden" : "picture"}
      style={{ ...(alone && space(file.width, file.height)), ...meanwhile(file, hidden ? null : uploads.localPictureOf(file.id)) }}
      aria-label={hidden ? `Spoiler. Show the picture: ${label}` : `Open the picture: ${label}`}
      onClick={() => (hidden ? setHidden(false) : open())}
    >
      {hidden ? (
        <span className="spoiler">Spoiler</span>
      ) : (
        <img
          key={attempt}
          src={reachable(file.large ?? file.url!)}
          srcSet={sources.join(", ")}
          sizes={alone ? `${WIDEST_PX}px` : "200px"}
          width={file.width ?? undefined}
          height={file.height ?? undefined}
          alt={file.description ?? ""}
          draggable={false}
          onError={askAfterError}
        />
      )}
    </button>
  );
}

/** What is shown after a click only, if its sender wants that. */
function Hidden({ when, children }: { when: boolean; children: ReactNode }) {
  const [hidden, setHidden] = useState(when);
  if (!hidden) return children;
  return <button type="button" className="file-card spoiler-card" onClick={() => setHidden(false)}><Icon name="eye" /> Spoiler: show the file</button>;
}

function Player({ file: given }: { file: MessageFile }) {
  const { file, askAfterError, attempt } = useFile(given);
  const label = file.description ?? file.filename;
  const common = { src: reachable(file.url!), controls: true, preload: "metadata", "aria-label": label, onError: askAfterError } as const;
  return (
    <figure className="player">
      {file.contentType.startsWith("video/") ? <video key={attempt} {...common} playsInline style={{ ...space(file.width, file.height), ...meanwhile(file, null) }} /> : <audio key={attempt} {...common} />}
      <figcaption><Download file={file}>{file.filename}</Download> <span>{size(file.sizeBytes)}</span></figcaption>
    </figure>
  );
}

const STATES = { UPLOADING: "not sent yet", SCANNING: "being checked for viruses", REJECTED: "refused: it may be harmful", REMOVED: "no longer there" };

function FileCard({ file }: { file: MessageFile }) {
  const body = (
    <>
      <Icon name="file" />
      <span className="name"><b dir="auto">{file.filename}</b><span>{file.url ? `${size(file.sizeBytes)} · ${ending(file)}` : file.state === "READY" ? "no longer there" : STATES[file.state]}</span></span>
    </>
  );
  if (!file.url) return <p className="file-card">{body}</p>;
  return <Download file={file} className="file-card">{body}<Icon name="download" /></Download>;
}

const ending = ({ filename, contentType }: MessageFile) => /\.([A-Za-z0-9]{1,5})$/.exec(filename)?.[1]?.toUpperCase() ?? contentType;

/** A link that saves the file. Its address may have ended since, so a click asks for it again. */
export function Download({ file, className, children }: { file: MessageFile; className?: string; children: ReactNode }) {
  const { tell } = useWorld();
  const { ask } = useFile(file);
  const save = async (event: MouseEvent) => {
    event.preventDefault();
    const now = await ask();
    if (!now?.url) return tell("This file cannot be loaded. It may have been removed.");
    Object.assign(document.createElement("a"), { href: reachable(now.url), download: now.filename }).click();
  };
  return <a className={className} href={reachable(file.url!)} download={file.filename} aria-label={`Download ${file.filename}, ${size(file.sizeBytes)}`} onClick={(event) => void save(event)}>{children}</a>;
}
