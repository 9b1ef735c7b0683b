import { useState, type CSSProperties, type MouseEvent, type ReactNode } from "react";

import { reachableAddress } from "../../confab/addresses";
import { blurredPicture } from "../../confab/thumbHash";
import { Icon } from "../Icon";
import { useApp } from "../appContext";
import { Lightbox } from "./Lightbox";
import { useFile } from "./useFiles";
import { isPicture, formatSize, type MessageFile } from "./format";

const MAX_WIDTH_PX = 340;
const MAX_HEIGHT_PX = 360;
const MIN_WIDTH_PX = 120;

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
        <Spoiler key={each.id} when={each.spoiler}>
          {each.url && /^(video|audio)\//.test(each.contentType) ? <Player file={each} /> : <FileCard file={each} />}
        </Spoiler>
      ))}
      {open !== null && <Lightbox pictures={pictures} first={open} close={() => setOpen(null)} />}
    </div>
  );
}

/** The space of a picture, known before it is loaded. */
function pictureSize(width: number | null, height: number | null): CSSProperties {
  if (!width || !height) return { width: MAX_WIDTH_PX, aspectRatio: "4 / 3" };
  const scale = Math.min(1, MAX_WIDTH_PX / width, MAX_HEIGHT_PX / height);
  return { width: Math.max(MIN_WIDTH_PX, Math.round(width * scale)), aspectRatio: `${width} / ${height}` };
}

const placeholderStyle = (file: MessageFile, localPicture: string | null): CSSProperties => {
  const picture = localPicture ?? (file.thumbHash && blurredPicture(file.thumbHash));
  return picture ? { backgroundImage: `url("${picture}")` } : {};
};

function Picture({ file: given, alone, open }: { file: MessageFile; alone: boolean; open: () => void }) {
  const { uploads } = useApp();
  const [hidden, setHidden] = useState(given.spoiler);
  const { file, reloadAfterError, attempt } = useFile(given);
  const label = file.description ?? file.filename;
  const sources = [[file.small, 320], [file.medium, 640], [file.large, 1280]].flatMap(([url, width]) => (url ? [`${reachableAddress(String(url))} ${width}w`] : []));
  return (
    <button
      type="button"
      className={hidden ? "picture hidden" : "picture"}
      style={{ ...(alone && pictureSize(file.width, file.height)), ...placeholderStyle(file, hidden ? null : uploads.localPictureOf(file.id)) }}
      aria-label={hidden ? `Spoiler. Show the picture: ${label}` : `Open the picture: ${label}`}
      onClick={() => (hidden ? setHidden(false) : open())}
    >
      {hidden ? (
        <span className="spoiler">Spoiler</span>
      ) : (
        <img
          key={attempt}
          src={reachableAddress(file.large ?? file.url!)}
          srcSet={sources.join(", ")}
          sizes={alone ? `${MAX_WIDTH_PX}px` : "200px"}
          width={file.width ?? undefined}
          height={file.height ?? undefined}
          alt={file.description ?? ""}
          draggable={false}
          onError={reloadAfterError}
        />
      )}
    </button>
  );
}

/** Hides a file until a click, if its sender marked it as a spoiler. */
function Spoiler({ when, children }: { when: boolean; children: ReactNode }) {
  const [hidden, setHidden] = useState(when);
  if (!hidden) return children;
  return <button type="button" className="file-card spoiler-card" onClick={() => setHidden(false)}><Icon name="eye" /> Spoiler: show the file</button>;
}

function Player({ file: given }: { file: MessageFile }) {
  const { file, reloadAfterError, attempt } = useFile(given);
  const label = file.description ?? file.filename;
  const common = { src: reachableAddress(file.url!), controls: true, preload: "metadata", "aria-label": label, onError: reloadAfterError } as const;
  return (
    <figure className="player">
      {file.contentType.startsWith("video/") ? <video key={attempt} {...common} playsInline style={{ ...pictureSize(file.width, file.height), ...placeholderStyle(file, null) }} /> : <audio key={attempt} {...common} />}
      <figcaption><Download file={file}>{file.filename}</Download> <span>{formatSize(file.sizeBytes)}</span></figcaption>
    </figure>
  );
}

const STATES = { UPLOADING: "not sent yet", SCANNING: "being checked for viruses", REJECTED: "refused: it may be harmful", REMOVED: "no longer there" };

function FileCard({ file }: { file: MessageFile }) {
  const body = (
    <>
      <Icon name="file" />
      <span className="name"><b dir="auto">{file.filename}</b><span>{file.url ? `${formatSize(file.sizeBytes)} · ${extensionOf(file)}` : file.state === "READY" ? "no longer there" : STATES[file.state]}</span></span>
    </>
  );
  if (!file.url) return <p className="file-card">{body}</p>;
  return <Download file={file} className="file-card">{body}<Icon name="download" /></Download>;
}

const extensionOf = ({ filename, contentType }: MessageFile) => /\.([A-Za-z0-9]{1,5})$/.exec(filename)?.[1]?.toUpperCase() ?? contentType;

/** A link that saves the file. Its address may have expired, so a click requests it again. */
export function Download({ file, className, children }: { file: MessageFile; className?: string; children: ReactNode }) {
  const { showToast } = useApp();
  const { reload } = useFile(file);
  const save = async (event: MouseEvent) => {
    event.preventDefault();
    const now = await reload();
    if (!now?.url) return showToast("This file cannot be loaded. It may have been removed.");
    Object.assign(document.createElement("a"), { href: reachableAddress(now.url), download: now.filename }).click();
  };
  return <a className={className} href={reachableAddress(file.url!)} download={file.filename} aria-label={`Download ${file.filename}, ${formatSize(file.sizeBytes)}`} onClick={(event) => void save(event)}>{children}</a>;
}
