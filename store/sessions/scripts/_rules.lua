-- Rules that the fast path and the general code share. Capitalised names that no script defines are replaced by
-- literals: fields (WRITE_SEQ, ...) and limits (LOG_LENGTH, ...) of store/sessions/script_constants.py.

-- Returns the countable messages after those that were read or deleted, for a valid session.
local function count_unread(n, read_n, deleted_n)
  return math.max(0, n - math.max(read_n, deleted_n or 0))
end

-- Returns the position of a session in its lists: by priority, then by write_ts.
local function list_position(priority, write_ts)
  return priority * PRIORITY_WEIGHT + write_ts
end

-- Returns the member of the key `list` that stands for a session in one of the lists.
local function list_entry(list, position, conversation)
  return string.format('%s\n%016.0f\n%s', list, position, conversation)
end
