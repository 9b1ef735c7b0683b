"""GraphQL of moderation: kicks, bans, time-outs, and recalls of many messages."""
