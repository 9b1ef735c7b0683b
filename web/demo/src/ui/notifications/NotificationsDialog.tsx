import { Dialog } from "../Dialog";
import { SettingsForm } from "./SettingsForm";
import { ThisBrowser } from "./ThisBrowser";

/** Pushes to this browser, and what the user is notified of on all devices. */
export function NotificationsDialog({ close }: { close: () => void }) {
  return (
    <Dialog title="Notifications" close={close}>
      <ThisBrowser />
      <SettingsForm />
    </Dialog>
  );
}
