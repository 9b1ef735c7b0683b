import { useView } from "@confab/client/react";
import { useState } from "react";
import { createPortal } from "react-dom";

import type { ChosenFile } from "../../confab/uploads";
import { Dialog } from "../Dialog";
import { Icon } from "../Icon";
import { useApp } from "../appContext";
import { isPicture, formatSize } from "./format";

interface Props {
  files: readonly ChosenFile[];
  /** A message waits for them. */
  isSent?: boolean;
}

/** Files that were chosen for the next message, or that a message waits for. */
export function Tray({ files, isSent = false }: Props) {
  const [describedKey, setDescribedKey] = useState<string | null>(null);
  const described = files.find(({ key }) => key === describedKey);
  return (
    <>
      <ul className="tray" aria-label="Files">
        {files.map((each) => <FileRow key={each.key} chosen={each} describe={isSent ? null : () => setDescribedKey(each.key)} />)}
      </ul>
      {described && <DescribeDialog chosen={described} close={() => setDescribedKey(null)} />}
    </>
  );
}

function FileRow({ chosen, describe }: { chosen: ChosenFile; describe: (() => void) | null }) {
  const { uploads } = useApp();
  const { upload, file, localPicture, spoiler, description } = chosen;
  const { status, progress, error } = useView(upload);
  const percent = Math.round(progress * 100);
  const hasFailed = status === "failed";
  const isUploading = status === "sending" || status === "checking";
  const statusText = { sending: `${percent} % of ${formatSize(file.size)}`, checking: "Being checked…", ready: formatSize(file.size), failed: error?.message, canceled: "" };
  return (
    <li data-state={status}>
      {localPicture ? <img src={localPicture} alt="" className={spoiler ? "blurred" : undefined} /> : <span className="no-preview"><Icon name="file" /></span>}
      <div className="name">
        <b dir="auto">{file.name}</b>
        <span role={hasFailed ? "alert" : undefined} className={hasFailed ? "failure" : undefined}>{statusText[status]}{spoiler && " · spoiler"}</span>
        {isUploading && <progress aria-label={`Upload of ${file.name}`} max={100} value={status === "checking" ? undefined : percent} />}
      </div>
      {hasFailed && <button type="button" className="icon" aria-label={`Try ${file.name} again`} title="Try again" onClick={() => upload.retry()}><Icon name="again" /></button>}
      {!hasFailed && describe && <button type="button" className="icon" aria-label={`Describe ${file.name}`} title={description || (isPicture(file.type) ? "Describe the picture" : "Describe the file")} onClick={describe}><Icon name="pencil" /></button>}
      <button type="button" className="icon" aria-label={`Remove ${file.name}`} title="Remove" onClick={() => uploads.remove(chosen)}><Icon name="close" /></button>
    </li>
  );
}

/** A picture that is being uploaded, in its final size. */
export function UploadingPicture({ chosen }: { chosen: ChosenFile }) {
  const { uploads } = useApp();
  const { upload, file, localPicture, spoiler, description } = chosen;
  const { status, progress } = useView(upload);
  return (
    <span className="picture sending">
      <img src={localPicture!} alt={description} className={spoiler ? "blurred" : undefined} />
      {status !== "ready" && <progress aria-label={`Upload of ${file.name}`} max={1} value={status === "checking" ? undefined : progress} />}
      <button type="button" className="icon" aria-label={`Remove ${file.name}`} title="Remove" onClick={() => uploads.remove(chosen)}><Icon name="close" /></button>
    </span>
  );
}

function DescribeDialog({ chosen, close }: { chosen: ChosenFile; close: () => void }) {
  const { uploads } = useApp();
  const [description, setDescription] = useState(chosen.description);
  const [spoiler, setSpoiler] = useState(chosen.spoiler);
  const save = () => {
    if (description !== chosen.description || spoiler !== chosen.spoiler) uploads.describe(chosen, { description: description.trim(), spoiler });
    close();
  };
  // Outside of the composer's form: forms cannot be nested.
  return createPortal(
    <Dialog title={chosen.file.name} close={close}>
      <form onSubmit={(event) => (event.preventDefault(), event.stopPropagation(), save())}>
        {chosen.localPicture && <img className="described" src={chosen.localPicture} alt="" />}
        <label>Description, for people who do not see it<input autoFocus maxLength={1000} value={description} onChange={(event) => setDescription(event.target.value)} /></label>
        <label className="check"><input type="checkbox" checked={spoiler} onChange={(event) => setSpoiler(event.target.checked)} /> Spoiler: show it after a click only</label>
        <p className="dialog-buttons"><button className="button">Done</button></p>
      </form>
    </Dialog>,
    document.body,
  );
}
