import { useState } from "react";

import { DevicesDocument, NameDeviceDocument, RemoveDeviceDocument, type DevicePartsFragment } from "../../gql";
import { Dialog } from "../Dialog";
import { day, time } from "../format";
import { Icon } from "../Icon";
import { Menu } from "../Menu";
import { useMutation } from "../useMutation";
import { useAnswer, useApp } from "../appContext";

const TYPES = { WEB: ["globe", "Browser"], DESKTOP: ["laptop", "Computer"], MOBILE: ["phone", "Phone"] } as const;
const NOW_MS = 120_000;
const REFRESHES = { refreshes: [DevicesDocument] };

const seen = (at: string) => (Date.now() - Date.parse(at) < NOW_MS ? "Connected now" : `Last seen ${day(at).replace(/^(To|Yester)/, (word) => word.toLowerCase())} at ${time(at)}`);

/** The devices on which the user is signed in: to give them names, and to remove a lost one. */
export function DevicesDialog({ close }: { close: () => void }) {
  const { answers, device, confirm } = useApp();
  const mutate = useMutation();
  const { data, error } = useAnswer(DevicesDocument, {});
  const [renamed, setRenamed] = useState<string | null>(null);
  const isThis = ({ id }: DevicePartsFragment) => id === device.deviceId;
  // This device first, then those seen last.
  const devices = [...(data?.devices ?? [])].sort((a, b) => Number(isThis(b)) - Number(isThis(a)) || Date.parse(b.lastSeenAt) - Date.parse(a.lastSeenAt));

  const nameOf = (each: DevicePartsFragment) => each.name || TYPES[each.type][1];
  const remove = async (each: DevicePartsFragment) => {
    const here = isThis(each);
    const text = here ? "You are signed out here." : "It is signed out, and loses its connection at once.";
    if (!(await confirm({ title: `Remove ${nameOf(each)}?`, text, verb: "Remove" }))) return;
    await mutate(RemoveDeviceDocument, { id: each.id }, REFRESHES);
  };
  const rename = async (each: DevicePartsFragment, name: string) => {
    if (name && name !== each.name && !(await mutate(NameDeviceDocument, { id: each.id, type: each.type, name }, REFRESHES))) return;
    setRenamed(null);
  };

  return (
    <Dialog title="Devices" close={close}>
      {error && !data && <p role="alert">The list didn't load. <button className="link" onClick={() => answers.refresh(DevicesDocument)}>Try again</button></p>}
      <ul className="devices" aria-label="Devices">
        {devices.map((each) => (
          <li key={each.id} data-device={each.id}>
            <span className="device-sign" aria-hidden="true"><Icon name={TYPES[each.type][0]} /></span>
            {renamed === each.id ? (
              <Rename name={nameOf(each)} save={(name) => void rename(each, name)} cancel={() => setRenamed(null)} />
            ) : (
              <>
                <span className="device-name">
                  {nameOf(each)} {isThis(each) && <span className="tag">This device</span>}
                  <small>{isThis(each) ? "Connected now" : seen(each.lastSeenAt)}{each.pushPlatform && " · gets notifications"}</small>
                </span>
                <Menu
                  label={`Actions for ${nameOf(each)}`}
                  items={[{ label: "Rename", run: () => setRenamed(each.id) }, { label: "Remove", danger: true, run: () => void remove(each) }]}
                />
              </>
            )}
          </li>
        ))}
      </ul>
      <p className="hint">Remove a device that you lost or do not know.</p>
    </Dialog>
  );
}

function Rename({ name, save, cancel }: { name: string; save: (name: string) => void; cancel: () => void }) {
  const [text, setText] = useState(name);
  return (
    <form className="row rename" onSubmit={(event) => (event.preventDefault(), save(text.trim()))}>
      <input
        aria-label="Name of the device"
        value={text}
        maxLength={64}
        required
        autoFocus
        onFocus={(event) => event.target.select()}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && (event.preventDefault(), cancel())}
      />
      <button className="button">Save</button>
    </form>
  );
}
