import { useState } from "react";
import { createPortal } from "react-dom";

import type { FileUpload } from "../../confab/uploads";
import { Dialog } from "../Dialog";
import { Icon } from "../Icon";
import { useWorld } from "../world";
import { isPicture, size } from "./words";

/** Files that were chosen for the next message, or that a message waits for. */
export function Tray({ files }: { files: readonly FileUpload[] }) {
  const [described, setDescribed] = useState<string | null>(null);
  const asked = files.find(({ key }) => key === described);
  return (
    <>
      <ul className="tray" aria-label="Files">
        {files.map((each) => <Chosen key={each.key} item={each} describe={() => setDescribed(each.key)} />)}
      </ul>
      {asked && <Describe item={asked} close={() => setDescribed(null)} />}
    </>
  );
}

function Chosen({ item, describe }: { item: FileUpload; describe: () => void }) {
  const { uploads } = useWorld();
  const { key, file, localPicture, progress, state, failure, spoiler, description } = item;
  const percent = Math.round(progress * 100);
  const words = { sending: `${percent} % of ${size(file.size)}`, checking: "Being checked…", ready: size(file.size), failed: failure };
  return (
    <li data-state={state}>
      {localPicture ? <img src={localPicture} alt="" className={spoiler ? "blurred" : undefined} /> : <span className="no-preview"><Icon name="file" /></span>}
      <div className="name">
        <b dir="auto">{file.name}</b>
        <span role={state === "failed" ? "alert" : undefined} className={state === "failed" ? "failure" : undefined}>{words[state]}{spoiler && " · spoiler"}</span>
        {(state === "sending" || state === "checking") && <progress aria-label={`Upload of ${file.name}`} max={100} value={state === "checking" ? undefined : percent} />}
      </div>
      {state === "failed" && <button type="button" className="icon" aria-label={`Try ${file.name} again`} title="Try again" onClick={() => uploads.retry(key)}><Icon name="again" /></button>}
      {state !== "failed" && <button type="button" className="icon" aria-label={`Describe ${file.name}`} title={description || (isPicture(file.type) ? "Describe the picture" : "Describe the file")} onClick={describe}><Icon name="pencil" /></button>}
      <button type="button" className="icon" aria-label={`Remove ${file.name}`} title="Remove" onClick={() => uploads.cancel(key)}><Icon name="close" /></button>
    </li>
  );
}

/** A picture on its way, as large as it will be. */
export function Sending({ item: { key, file, localPicture, state, progress, spoiler, description } }: { item: FileUpload }) {
  const { uploads } = useWorld();
  return (
    <span className="picture sending">
      <img src={localPicture!} alt={description} className={spoiler ? "blurred" : undefined} />
      {state !== "ready" && <progress aria-label={`Upload of ${file.name}`} max={1} value={state === "checking" ? undefined : progress} />}
      <button type="button" className="icon" aria-label={`Remove ${file.name}`} title="Remove" onClick={() => uploads.cancel(key)}><Icon name="close" /></button>
    </span>
  );
}

function Describe({ item, close }: { item: FileUpload; close: () => void }) {
  const { uploads } = useWorld();
  const [description, setDescription] = useState(item.description);
  const [spoiler, setSpoiler] = useState(item.spoiler);
  const save = () => {
    if (description !== item.description || spoiler !== item.spoiler) uploads.describe(item.key, { description: description.trim(), spoiler });
    close();
  };
  // Outside of the composer's form: forms cannot be nested.
  return createPortal(
    <Dialog title={item.file.name} close={close}>
      <form onSubmit={(event) => (event.preventDefault(), event.stopPropagation(), save())}>
        {item.localPicture && <img className="described" src={item.localPicture} alt="" />}
        <label>Description, for people who do not see it<input autoFocus maxLength={1000} value={description} onChange={(event) => setDescription(event.target.value)} /></label>
        <label className="check"><input type="checkbox" checked={spoiler} onChange={(event) => setSpoiler(event.target.checked)} /> Spoiler: show it after a click only</label>
        <p className="answers"><button className="button">Done</button></p>
      </form>
    </Dialog>,
    document.body,
  );
}
