"""The same chat as a competent developer would write it with the same libraries, to be measured beside Confab.

Strawberry's own ASGI application with its parser and validation caches and data loaders, PyMongo's AsyncMongoClient, redis-py's
publish/subscribe with a channel a user. The names are those of Confab's API, so the same operations can be asked of both.

Serve `bench.baseline.app:app` with uvicorn (MongoDB as a replica set). Environment: BASELINE_MONGO_URL, BASELINE_DATABASE,
BASELINE_REDIS_URL. GET /readyz answers 200 once the indexes are there; POST /graphql; graphql-transport-ws at /graphql.
Who asks: `Authorization: Bearer <user id>` as a header, or as `Authorization` in the payload of connection_init. It is taken at its
word; so is a JSON Web Token, of which `sub` is read, so that clients of Confab can be used as they are.

What there is: sendMessage (toUserId or conversationId, content, idempotencyKey), createGroup (name, memberIds), markRead; me, sessions,
session, syncSessions, totalUnread, messages, conversation; messageEvents and syncSession. `bench.baseline.seed` inserts people,
sessions, groups and messages in bulk: insert_people, insert_owner (like that of bench.session_data), insert_private, insert_group,
insert_messages, make_indexes. Nobody has to be registered.

A message is four calls of MongoDB (the conversation's seq, the message, the sender's profile, one bulk of the session rows: all others'
by one UpdateMany, which costs MongoDB half of what an UpdateOne each does) and one pipeline of Redis with a PUBLISH a member. The event
carries the sender, so that no subscription asks for it.

A message is inserted with majority and journal; the conversation's seq and the session rows are written with w: 1, which costs less
than Confab's promise. Other things that Confab promises and this doesn't: unread counters that hold in a crash or a race, clocks
that are strictly increasing, live events without gap, repeat or change of order, catching up from a cursor by subscription (reset
is true), being let in and out of groups, receipts of single messages, mute, pins, folders, limits.
"""
