import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { createPortal } from "react-dom";

import { reachableAddress } from "../../confab/addresses";
import { blurredPicture } from "../../confab/thumbHash";
import { Icon } from "../Icon";
import { Download } from "./Attachments";
import { useFile } from "./useFiles";
import type { MessageFile } from "./format";

/** Pictures in the size of the window. Arrow keys go through them, Escape closes. */
export function Lightbox({ pictures, first, close }: { pictures: readonly MessageFile[]; first: number; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [index, setIndex] = useState(first);
  const file = pictures[Math.min(index, pictures.length - 1)];
  useEffect(() => {
    if (file) dialog.current?.showModal();
    else close(); // The message was recalled.
  }, [!file]);
  if (!file) return null;

  const step = (by: number) => setIndex((index + by + pictures.length) % pictures.length);
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  };
  const several = pictures.length > 1;
  return createPortal(
    <dialog ref={dialog} className="lightbox" aria-label={file.description ?? file.filename} onClose={close} onKeyDown={onKeyDown} onClick={(event) => (event.target as HTMLElement).closest("button, a, img") || close()}>
      <header>
        <p dir="auto">{file.filename}{several && <span> {index + 1} of {pictures.length}</span>}</p>
        <Download file={file} className="icon"><Icon name="download" /></Download>
        <button type="button" className="icon" aria-label="Close" autoFocus onClick={close}><Icon name="close" /></button>
      </header>
      <Large key={file.id} file={file} />
      {several && <button type="button" className="icon previous" aria-label="Previous picture" onClick={() => step(-1)}><Icon name="back" /></button>}
      {several && <button type="button" className="icon next" aria-label="Next picture" onClick={() => step(1)}><Icon name="chevron" /></button>}
      {file.description && <p className="description" dir="auto">{file.description}</p>}
    </dialog>,
    document.body,
  );
}

function Large({ file: given }: { file: MessageFile }) {
  const { file, reloadAfterError, attempt } = useFile(given);
  const picture = file.thumbHash && blurredPicture(file.thumbHash);
  return (
    <img
      key={attempt}
      src={reachableAddress(file.url!)}
      width={file.width ?? undefined}
      height={file.height ?? undefined}
      alt={file.description ?? file.filename}
      style={picture ? { backgroundImage: `url("${picture}")` } : undefined}
      onError={reloadAfterError}
    />
  );
}
