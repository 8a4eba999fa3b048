-- Take or renew a role. scheduler:<role> is the lock of the 3.2 line (the holder, with an expiry); `roles` says until
-- when one of ours has it, so that the store's own clock decides between us.
--
-- ARGV: now, role, owner, seconds.
-- Returns: 1, or 0 while somebody else has it.
local now, role, owner, seconds = clock(), arg(), arg(), number()
insist()
local key = P .. 'scheduler:' .. role
local holder = call('GET', key)
if holder and holder ~= owner then
  local ours = call('HGET', P .. 'roles', role)
  local name, ends = string.match(ours or '', '^(.*)\n([^\n]*)$')
  if name ~= holder or tonumber(ends) > tonumber(now) then
    return 0
  end
end
call('SET', key, owner, 'PX', string.format('%.0f', math.max(1, seconds * 1000)))
call('HSET', P .. 'roles', role, owner .. '\n' .. string.format('%.6f', tonumber(now) + seconds))
return 1
