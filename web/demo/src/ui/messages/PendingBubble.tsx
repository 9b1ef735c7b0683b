import type { PendingMessage, Upload } from "@confab/client";

import { UploadingPicture, Tray } from "../files/Tray";
import { plural, time } from "../format";
import { MessageText } from "../text/MessageText";
import { Ticks } from "../Ticks";
import { useApp } from "../appContext";

/** A message that waits for its files or for the server, or that the server refused. */
export function PendingBubble({ item: { key, draft, files, writtenAt, failure } }: { item: PendingMessage }) {
  const { client } = useApp();
  const status = failure ? "failed" : "pending";
  const discard = () => client.discard(key);
  return (
    <article className="bubble own" data-status={status}>
      <div className="body">
        <span className="sr-only">You: </span>
        {files ? <WaitingFiles files={files} /> : <SentFiles ids={draft.attachmentIds ?? []} />}
        {draft.text && <MessageText content={draft.text} />}
        <p className="meta"><time>{time(writtenAt)}</time><Ticks status={status} /></p>
        {failure && files && (
          <p className="failure" role="alert">
            Not sent: remove the file that failed, or <button className="link" onClick={discard}>discard the message</button>.
          </p>
        )}
        {failure && !files && (
          <p className="failure" role="alert">
            {failure} <button className="link" onClick={() => client.retry(key)}>Try again</button>{" "}
            <button className="link" onClick={discard}>Discard</button>
          </p>
        )}
      </div>
    </article>
  );
}

/** Files that are still being uploaded. */
function WaitingFiles({ files }: { files: readonly Upload[] }) {
  const { uploads } = useApp();
  const chosen = files.map(uploads.chosenAs);
  const pictures = chosen.filter(({ localPicture, upload }) => localPicture && upload.get().status !== "failed");
  const others = chosen.filter((each) => !pictures.includes(each));
  return (
    <>
      {pictures.length > 0 && (
        <div className="attachments">
          <div className="gallery" data-count={Math.min(pictures.length, 4)}>{pictures.map((each) => <UploadingPicture key={each.key} chosen={each} />)}</div>
        </div>
      )}
      {others.length > 0 && <Tray files={others} isSent />}
    </>
  );
}

/** Files that the server has. */
function SentFiles({ ids }: { ids: readonly string[] }) {
  const { uploads } = useApp();
  const previews = ids.flatMap((id) => uploads.localPictureOf(id) ?? []);
  return (
    <>
      {previews.length > 0 && (
        <div className="attachments">
          <div className="gallery" data-count={Math.min(previews.length, 4)}>{previews.map((each) => <span key={each} className="picture"><img src={each} alt="" /></span>)}</div>
        </div>
      )}
      {ids.length > previews.length && <p className="hint">{plural(ids.length - previews.length, "file")}</p>}
    </>
  );
}
