"""Fields of the indexes that queries name, and of fields that have an index of their own."""

from __future__ import annotations

PLACE = (("c", 1), ("b", 1), ("s", 1))
"""Fields of the unique index of `messages`: conversation, bucket, seq."""

BY_KEY = (("u", 1), ("ik", 1))
"""Fields of the index of `messages` for idempotency keys on a sharded cluster: sender, key."""

OWNED_KEY = (*BY_KEY, ("ir", 1))
"""Fields of the unique index of `messages` for idempotency keys: sender, key, mark of a released key."""

OWNED_KEY_IN_BUCKET = (("c", 1), ("b", 1), *OWNED_KEY)
"""Fields of the unique index for idempotency keys on a sharded cluster, where it has to begin with the shard key."""

BY_CHUNK = (("files_id", 1), ("n", 1))
"""Fields of the unique index of chunks of blobs: blob, position."""

BY_ID = (("_id", 1),)
"""Fields of the index that every collection has."""

BY_SEARCH_KEY = (("k", 1), ("s", 1))
"""Fields of the index of `users` for the directory."""

PENDING_SINCE = "pn.a"
"""Field of the index of `workspaces` for changes of rights that are not complete."""

LINKS_DUE = "em.p"
"""Field of the index of `messages` for messages whose links are pending."""

BY_LINKS_DUE = ((LINKS_DUE, 1),)
"""That index: the longest due first."""

PIN_NOTED_AT = "pa.a"
"""Field of the index of `conversations` for changes of pins that are not announced."""

# Short names of fields of workspaces and their members: `WorkspaceField`, `WorkspaceMemberField`.
BY_OPEN_SIZE = (("mc", -1), ("_id", 1))
"""Fields of the index of open workspaces, largest first."""

BY_OPEN_SIZE_AND_KEY = (("k", 1), ("mc", -1), ("_id", 1))
"""Fields of the index of open workspaces by beginnings of their names."""

BY_PARENT = (("tp", 1), ("w", -1), ("_id", -1))
"""Fields of the index of the threads of each conversation, latest reply first."""

BY_CHANNEL = (("ch", 1),)
"""Fields of the index of the sessions in each channel. Its name in `store/sessions/fields.py`: CHANNEL."""

BY_OLDEST = (("k", 1), ("fo", 1))
"""Fields of the index of conversations by kind, those with the oldest messages first."""

BY_RETENTION_DUE = (("rd", 1),)
"""Fields of the index of workspaces whose messages expire, the longest due first."""

BY_EXPIRED = (("at", 1),)
"""Fields of the index of `expired`: the longest due first."""

BY_MUTE_END = (("_id", 1), ("mu", 1))
"""Fields of the index of sessions whose mute ends by itself. In `store/sessions/fields.py`: muted_until_ms."""

# Short names of fields of reactions: `ReactionField`.
BY_REACTION_ORDER = (("m", 1), ("e", 1), ("o", 1))
"""Fields of the index of the reactions to each message with each emoji, in order."""

HELD_UNTIL = "l"
"""Field of the index of `held_receipts`: when a server looks whether the user is visible again (ms)."""

BY_PUSHED_USER = (("us", 1),)
"""Fields of the index of the devices of users that take pushes. In `store/devices/device_fields.py`: PUSHED_USER."""

BY_HELD_UNTIL = ((HELD_UNTIL, 1),)
"""That index: the longest due first."""

BY_DELETION = (("del", 1),)
"""Fields of the index of workspaces that were deleted and are being removed."""

# Short names of fields of files: `FileField`.
BY_REMOVAL = (("rm", 1),)
"""Fields of the index of files whose bytes may be removed from a time on."""

BY_OWNER_AND_REMOVAL = (("o", 1), ("rm", 1))
"""Fields of the index of the files of each user that no message has."""

BY_TIDYING = (("ta", 1),)
"""Fields of the index of files with superfluous blobs."""

BY_SCANNING = (("st", 1), ("_id", 1))
"""Fields of the index of files for which the scanner has not answered."""

# Short names of fields of rows of the index of messages: `IndexField`.
BY_TERM = (("c", 1), ("t", 1), ("l", 1))
"""Fields of the index of `search` for terms and their beginnings."""

BY_NEWEST = (("c", 1), ("l", 1))
"""Fields of the index of the newest rows of `search`. Also its shard key."""

# Short names of fields of webhooks: `WebhookField`.
BY_WEBHOOK_OWNER = (("o", 1),)
"""Fields of the index of `webhooks` for those of a channel."""

BY_WEBHOOK_WORKSPACE = (("w", 1),)
"""Fields of the index of `webhooks` for those of a workspace."""

# Short names of fields of events of webhooks and of lines: `EventField`, `LineField`.
BY_LINE = (("l", 1), ("o", 1))
"""Fields of the index of `webhook_events` for the pending events of each line."""

BY_DELIVERY = (("w", 1), ("o", 1))
"""Fields of the index of `webhook_events` for the deliveries of each webhook."""

BY_PENDING_TIME = (("w", 1), ("at", 1))
"""Fields of the index of `webhook_events` for the pending events of each webhook by time."""

BY_LINE_DUE = (("w", 1), ("d", 1))
"""Fields of the index of `webhook_lines`: the longest due of each webhook first."""

# Short names of fields of jobs: `JobField`.
BY_JOB_DUE = (("d", 1),)
"""Fields of the index of jobs that have not ended, the longest due first."""

BY_AUDIT_USER = (("u", 1), ("ab", 1), ("_id", 1))
"""Fields of the index of the entries about changes in a user's name, with who acted for the user."""

BY_AUDIT_ACTED_BY = (("ab", 1), ("_id", 1))
"""Fields of the index of the entries about changes of a user who acted for others."""

BY_AUDIT_TARGET = (("t", 1), ("_id", 1))
"""Fields of the index of the entries by the person or object concerned."""

BY_AUDIT_ACTION = (("a", 1), ("_id", 1))
"""Fields of the index of the entries by mutation."""

BY_JOB_USER = (("u", 1), ("ct", -1))
"""Fields of the index of the jobs about each user, the newest first."""

# Short names of fields of reports: `ReportField`.
BY_REPORT_PLACE = (("w", 1), ("st", 1), ("o", -1))
"""Fields of the index of the reports of each workspace and state, the newest first."""

BY_REPORT_TIME = (("o", 1),)
"""Fields of the index of all reports, the oldest first."""

BY_REPORTER = (("u", 1), ("_id", 1))
BY_REPORT_NOTE = (("d", 1),)
"""Fields of the index of reports whose events are not noted for webhooks."""

BY_MEMBER_NAME = (("w", 1), ("sn", 1))
"""Fields of the index of the members of a workspace in order of names."""

BY_MEMBER_KEY = (("w", 1), ("k", 1), ("sn", 1))
"""Fields of the index of members by beginnings of their names."""

BY_MEMBER_ROLE = (("w", 1), ("r", 1), ("sn", 1))
"""Fields of the index of members with a role."""

BY_NICKNAMED_USER = (("w", 1), ("us", 1))
"""Fields of the index of members with a nickname in order of their own names."""
