-- Returns the watchers of a conversation. ARGV: now (ms).
remove_expired()
return redis.call('ZRANGE', WATCHERS, 0, -1)
