/** This device, as `connection_init` names it. Each profile of a browser is one. */
import { newKey, type Api, type Device } from "@confab/client";

import { NameDeviceDocument } from "../gql";
import { disk } from "./disk";

/** Gives this device a name in the user's list, once: the user may change it. */
export async function nameDevice(api: Api, { deviceId, deviceType }: Device, storagePrefix: string): Promise<void> {
  const key = `${storagePrefix}.named`;
  if (disk.get(key) === deviceId) return;
  const named = await api.request(NameDeviceDocument, { id: deviceId, type: deviceType, name: deviceName() }).catch(() => null);
  if (named) disk.set(key, deviceId);
}

/** For example "Firefox on Linux". */
function deviceName(): string {
  const firstMatch = (names: Record<string, RegExp>) => Object.keys(names).find((each) => names[each]!.test(navigator.userAgent));
  const browser = firstMatch({ Edge: /Edg/, Opera: /OPR/, Firefox: /Firefox|FxiOS/, Chrome: /Chrome|CriOS/, Safari: /Safari/ }) ?? "Browser";
  const system = firstMatch({ iOS: /iPhone|iPad|iPod/, Android: /Android/, macOS: /Mac OS X/, Windows: /Windows/, ChromeOS: /CrOS/, Linux: /Linux/ });
  return system ? `${browser} on ${system}` : browser;
}

export function thisDevice(storagePrefix: string): Device {
  const key = `${storagePrefix}.device`;
  const deviceId = disk.get(key) ?? newKey();
  disk.set(key, deviceId);
  return { deviceId, deviceType: deviceType() };
}

/** An installed page has a window of its own. */
function deviceType(): Device["deviceType"] {
  if (/Android|iPhone|iPad|iPod|Mobile/i.test(navigator.userAgent)) return "MOBILE";
  return matchMedia("(display-mode: standalone)").matches ? "DESKTOP" : "WEB";
}
