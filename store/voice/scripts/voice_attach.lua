-- Notes which server has the connection of a device that is in voice, or that it has none. Others see no difference.
-- ARGV: now (ms), workspace, user, device, server, when the device was last heard from (ms; '0': it is connected), '1'
-- to do so only if the state names this server already, else ''.
-- Returns { id of the hash, state } after it; the state is '' if the device is not in voice.
local user, device, server, gone, is_own = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7] ~= ''

local id, state = redis.call('HGET', VOICE, 'id') or '', find_state(user)
if not state or state.device ~= device then return { id, '' } end
if not is_own or state.server == server then
  state.server, state.gone = server, gone
  redis.call('HSET', VOICE, 'u ' .. user, format_state(state))
end
return { id, format_state(state) }
