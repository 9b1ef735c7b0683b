import { useEffect, useState } from "react";

import { LevelInForceDocument, type NotificationLevel } from "../../gql";
import { LevelDialog } from "../notifications/LevelDialog";
import { useMutation } from "../useMutation";

/** The notification level of the channels of a workspace that have no exception. */
export function WorkspaceNotifications({ id, name, close }: { id: string; name: string; close: () => void }) {
  const mutate = useMutation();
  const [level, setLevel] = useState<NotificationLevel | null>(null);
  useEffect(() => void mutate(LevelInForceDocument, { id }).then((data) => setLevel(data?.setNotificationLevel ?? null)), [id]);
  return <LevelDialog id={id} title={name} level={level} inherited={["As in your settings", "No exception for this workspace"]} muting={null} close={close} />;
}
