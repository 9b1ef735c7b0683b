/** This device, as `connection_init` names it. Each profile of a browser is one. */
import { disk } from "./disk";
import { newKey } from "./outbox";

export interface Device {
  deviceId: string;
  deviceType: "WEB" | "DESKTOP" | "MOBILE";
}

export function thisDevice(place: string): Device {
  const key = `${place}.device`;
  const deviceId = disk.get(key) ?? newKey();
  disk.set(key, deviceId);
  return { deviceId, deviceType: deviceType() };
}

/** An installed page has a window of its own. */
function deviceType(): Device["deviceType"] {
  if (/Android|iPhone|iPad|iPod|Mobile/i.test(navigator.userAgent)) return "MOBILE";
  return matchMedia("(display-mode: standalone)").matches ? "DESKTOP" : "WEB";
}
