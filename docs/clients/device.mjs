import { newKey } from "./outbox.mjs";

const MOBILE = /Android|iPhone|iPad|iPod|Mobile/;
const memory = new Map();
const inMemory = { getItem: (key) => memory.get(key) ?? null, setItem: (key, value) => memory.set(key, value) };

// This device, as the server shows it to its user. A profile of a browser is one device, for as long as it keeps its data. deviceType:
// WEB, DESKTOP or MOBILE; an app for desktops returns DESKTOP here. In Node.js the id lasts as long as the process.
export function thisDevice(store = globalThis.localStorage ?? inMemory) {
  const deviceId = store.getItem("confab.device") ?? newKey();
  store.setItem("confab.device", deviceId);
  return { deviceId, deviceType: MOBILE.test(globalThis.navigator?.userAgent ?? "") ? "MOBILE" : "WEB" };
}
