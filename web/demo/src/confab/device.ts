/** This device, as `connection_init` names it. Each profile of a browser is one. */
import type { Client } from "@urql/core";

import { NameDeviceDocument } from "../gql";
import { disk } from "./disk";
import { newKey } from "./outbox";

export interface Device {
  deviceId: string;
  deviceType: "WEB" | "DESKTOP" | "MOBILE";
}

/** Gives this device a name in the user's list, once: the user may change it. */
export async function nameDevice(client: Client, { deviceId, deviceType }: Device, place: string): Promise<void> {
  const key = `${place}.named`;
  if (disk.get(key) === deviceId) return;
  const { data } = await client.mutation(NameDeviceDocument, { id: deviceId, type: deviceType, name: deviceName() }).toPromise();
  if (data) disk.set(key, deviceId);
}

/** For example "Firefox on Linux". */
function deviceName(): string {
  const named = (names: Record<string, RegExp>) => Object.keys(names).find((each) => names[each]!.test(navigator.userAgent));
  const browser = named({ Edge: /Edg/, Opera: /OPR/, Firefox: /Firefox|FxiOS/, Chrome: /Chrome|CriOS/, Safari: /Safari/ }) ?? "Browser";
  const system = named({ iOS: /iPhone|iPad|iPod/, Android: /Android/, macOS: /Mac OS X/, Windows: /Windows/, ChromeOS: /CrOS/, Linux: /Linux/ });
  return system ? `${browser} on ${system}` : browser;
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
