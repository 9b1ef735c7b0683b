// Keeps the displayed list equal to the server's. since: the cursor of the displayed page, or the one stored last time.
// sync(since) returns a promise of a page of syncSessions; sessionEvents(since, take) and messageEvents(since, take) pass on each
// event and return a function that stops; show: sessions({ sessions, totalUnread, cursor, reset }), event(one of messageEvents).
export function keepInSync({ since, sync, sessionEvents, messageEvents, show }) {
  let cursor = since;
  let pulling = null;
  let again = false;
  const pull = async () => {
    do {
      again = false;
      const page = await sync(cursor);
      show.sessions(page);
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
  const stops = [
    sessionEvents(since, (change) => {
      show.sessions({ ...change, reset: false });
      pullSoon();
    }),
    messageEvents(since, (event) => {
      show.event(event); // CaughtUp with reset: fetch the displayed messages again, some were missed
      if (event.cursor) pullSoon();
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

// The list in display order.
export function asShown(sessions) {
  return [...new Map(sessions.map((session) => [session.id, session])).values()]
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

// The placeholder of a message until the server has stored it.
export function pendingMessage(me, { conversationId, content, idempotencyKey }) {
  return {
    __typename: "Message", id: idempotencyKey, idempotencyKey, conversationId, content, seq: Number.MAX_SAFE_INTEGER,
    contentType: "TEXT", state: "NORMAL", createdAt: new Date().toISOString(), editCount: 0,
    sender: { __typename: "User", ...me },
  };
}
