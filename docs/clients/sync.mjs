// Keeps a Chat equal to the server's state. page: the sessions of a first page, and its cursor. sync(since) returns a promise of a
// page of syncSessions; sessionEvents(since, take) and messageEvents(since, take) pass on each event and return a function that
// stops; refetch: fetches the displayed sessions and messages again, and forgets the others.
export function keepInSync({ chat, page: first, sync, sessionEvents, messageEvents, refetch }) {
  let cursor = first.cursor;
  let pulling = null;
  let again = false;
  const pull = async () => {
    do {
      again = false;
      const page = await sync(cursor);
      chat.onSessions(page);
      cursor = page.cursor;
      again ||= page.hasMore;
    } while (again);
  };
  // Every event changes sessions (order, counts, ticks). Ask the server which ones and how: once for many events, and again if
  // an event came meanwhile, so it does not matter whether an answer overtook an event.
  const pullSoon = () => {
    again = true;
    // If this fails, the next event or the next connection starts from the same cursor.
    pulling ??= pull().catch(() => {}).finally(() => { pulling = null; });
  };
  chat.onSessions(first);
  const stops = [
    sessionEvents(cursor, (change) => {
      chat.onSessions({ ...change, reset: false });
      pullSoon();
    }),
    messageEvents(cursor, (event) => {
      chat.onEvent(event);
      if (event.reset) refetch(); // the gap was too large
      if (event.cursor) pullSoon();
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

// The list in display order. Of two versions of a session the later one counts.
export function asShown(sessions) {
  const latest = new Map();
  for (const session of sessions) {
    if (!(latest.get(session.id)?.activeTs > session.activeTs)) latest.set(session.id, session);
  }
  return [...latest.values()]
    .filter(({ status, subBiz }) => status === "ACTIVE" && !subBiz)
    .sort((a, b) => b.priority - a.priority || b.writeTs - a.writeTs);
}

// A conversation in display order. A message being sent is listed under its key until the stored message is there.
export function inOrder(messages) {
  const shown = new Map();
  for (const message of messages) {
    const key = message.idempotencyKey ?? message.id;
    if (!(shown.get(key)?.seq < message.seq)) shown.set(key, message);
  }
  return [...shown.values()].sort((a, b) => a.seq - b.seq);
}
