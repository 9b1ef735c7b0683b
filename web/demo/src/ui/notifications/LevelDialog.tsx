import { SetLevelDocument, type NotificationLevel, type SessionPartsFragment } from "../../gql";
import { Dialog } from "../Dialog";
import { useDo } from "../useDo";
import { LEVELS } from "./levels";

/** What the user is notified of in one conversation. */
export function LevelDialog({ session: { conversation, notifications }, close }: { session: SessionPartsFragment; close: () => void }) {
  const run = useDo();
  const choose = async (level: NotificationLevel | null) => {
    if (await run(SetLevelDocument, { conversationId: conversation.id, level })) close();
  };
  return (
    <Dialog title={`Notifications for ${conversation.title}`} close={close}>
      <ul className="choices level-choices">
        {LEVELS.map(([level, name, hint]) => (
          <li key={level}><button aria-pressed={notifications === level} onClick={() => void choose(level)}><span>{name}<small>{hint}</small></span></button></li>
        ))}
        <li><button onClick={() => void choose(null)}><span>As in your settings<small>No exception for this conversation</small></span></button></li>
      </ul>
    </Dialog>
  );
}
