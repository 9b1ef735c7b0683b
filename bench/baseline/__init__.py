"""The same chat as a competent developer would write it with the same libraries, to compare Confab with.

It uses Strawberry's own ASGI application with its parser and validation caches and data loaders, PyMongo's
AsyncMongoClient, and redis-py's publish/subscribe with one channel per user. Names are those of Confab's API, so
both servers accept the same operations.

Serve `bench.baseline.app:app` with uvicorn (MongoDB as a replica set). Environment: BASELINE_MONGO_URL,
BASELINE_DATABASE, BASELINE_REDIS_URL. GET /readyz answers 200 once the indexes exist; POST /graphql;
graphql-transport-ws at /graphql. Authentication: `Authorization: Bearer <user id>` as a header, or as
`Authorization` in the payload of connection_init. It is not verified. A JSON Web Token works too (its `sub` is
used), so that clients of Confab can be used unchanged.

Operations: sendMessage (toUserId or conversationId, content, idempotencyKey), createGroup (name, memberIds),
markRead; me, sessions, session, syncSessions, totalUnread, messages, conversation; messageEvents and syncSession.

`bench.baseline.seed` inserts people, sessions, groups and messages in bulk: insert_people, insert_owner (like that
of bench.session_data), insert_private, insert_group, insert_messages, make_indexes. Users need no registration.

A message takes one update of the conversation (its seq and its last message), one insert, one bulk write of the
session rows, one read of profiles and one of the sender's session, and one pipeline to Redis with a PUBLISH per
member. The event contains the sender, so no subscription fetches it. A page takes one `find` each for sessions,
conversations and people; types are made from the rows at once, so that no field of a row is asynchronous.

A message is inserted with majority and journal. The conversation's seq and the session rows are written with w: 1,
which costs less than Confab's guarantee. Other guarantees of Confab that are missing here: unread counters that
survive crashes and races, strictly increasing clocks, live events without gap, repetition or reordering, resuming
subscriptions from a cursor (reset is true), membership changes of groups, receipts of single messages, mute, pins,
categories, limits.
"""
