-- Runs before every script on the keys of one slot in a cluster. KEYS[1]: any key of the slot.
-- Replies TRYAGAIN, having changed nothing, if the slot is being moved.
if not is_whole_slot(KEYS[1]) then return redis.error_reply('TRYAGAIN the slot is being moved') end
