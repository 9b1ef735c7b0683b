// Keeps what is shown as it is on the server. since: the cursor of the page that is shown, or the one kept from last time.
// sync(since) promises a page of syncSessions; sessionEvents(since, take) and messageEvents(since, take) hand over each event, and
// answer how to stop; show: sessions({ sessions, totalUnread, cursor, reset }), event(one of messageEvents).
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
  // Whatever happens changes sessions (order, numbers, ticks). Which ones, and to what, the server says: asked once for many
  // events, and again if one came meanwhile, so it doesn't matter which answer overtook which event.
  const pullSoon = () => {
    again = true;
    // Where it fails, the next event or the next connection begins at the same cursor.
    pulling ??= pull().catch(() => {}).finally(() => { pulling = null; });
  };
  const stops = [
    sessionEvents(since, (change) => {
      show.sessions({ ...change, reset: false });
      pullSoon();
    }),
    messageEvents(since, (event) => {
      show.event(event); // CaughtUp with reset: ask the messages that are shown anew, some were missed
      if (event.cursor) pullSoon();
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

// The list as people see it.
export function asShown(sessions) {
  return [...new Map(sessions.map((session) => [session.id, session])).values()]
    .filter(({ status, subBiz }) => status === "ACTIVE" && !subBiz)
    .sort((a, b) => b.priority - a.priority || b.writeTs - a.writeTs);
}

// A conversation as people see it. What is being sent is there under its key until it is there as it was stored.
export function inOrder(messages) {
  const shown = new Map();
  for (const message of messages) {
    const key = message.idempotencyKey ?? message.id;
    if (!(shown.get(key)?.seq < message.seq)) shown.set(key, message);
  }
  return [...shown.values()].sort((a, b) => a.seq - b.seq);
}

// What is shown of a message until the server has it.
export function pendingMessage(me, { conversationId, content, idempotencyKey }) {
  return {
    __typename: "Message", id: idempotencyKey, idempotencyKey, conversationId, content, seq: Number.MAX_SAFE_INTEGER,
    contentType: "TEXT", state: "NORMAL", createdAt: new Date().toISOString(), editCount: 0,
    sender: { __typename: "User", ...me },
  };
}
