// Functions that React Native adds to its engine, or that an older engine lacks: Hermes 0.12, the last one that is available as a program.
function TextEncoder() {}
TextEncoder.prototype.encode = function (text) {
  return Uint8Array.from(unescape(encodeURIComponent(text)), function (each) { return each.charCodeAt(0); });
};
globalThis.queueMicrotask = function (run) { Promise.resolve().then(run); };
globalThis.AbortController = function () {
  this.signal = { aborted: false, addEventListener: function () {}, throwIfAborted: function () {} };
  this.abort = function () {};
};
Array.prototype.at = Array.prototype.at || function (index) { return this[index < 0 ? this.length + index : index]; };

// The program has no clock: time advances when there is no other work.
var host = setTimeout, now = 1.7e12, ids = 0, timers = [], isRunning = false;
globalThis.setTimeout = function (run, ms) {
  timers.push({ id: ++ids, at: now + (ms || 0), run: run });
  if (!isRunning) host(next, 0);
  isRunning = true;
  return ids;
};
globalThis.clearTimeout = function (id) {
  timers = timers.filter(function (each) { return each.id !== id; });
};
Date.now = function () { return now; };
function next() {
  timers.sort(function (a, b) { return a.at - b.at || a.id - b.id; });
  var timer = timers.shift();
  isRunning = !!timer;
  if (!timer) return;
  now = timer.at;
  timer.run();
  host(next, 0);
}
