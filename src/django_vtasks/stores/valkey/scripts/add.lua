-- Add jobs, once even when the call is sent again: caller:<name> has the number and the answer of a caller's last call.
--
-- ARGV: now, caller, call number, jobs (see admit.lua).
-- Returns: text, a line "<position> <status> <holder>" for each job that was not added, "<group> refused <error>" for
--          each group that the server refused.
--
-- include: admit
local now = clock()
local caller, turn = P .. 'caller:' .. arg(), arg()

local before = call('SET', caller, turn, 'EX', 120, 'GET')
if before and (before == turn or string.sub(before, 1, #turn + 1) == turn .. '\n') then
  call('SET', caller, before, 'EX', 120)
  return string.sub(before, #turn + 2)
end

local text = admit_all(now, true)
if text ~= '' then
  call('SET', caller, turn .. '\n' .. text, 'EX', 120)
end
return text
