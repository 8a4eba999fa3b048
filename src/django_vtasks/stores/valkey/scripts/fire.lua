-- Record a slot of a schedule entry and add its job, if the last slot is the expected one.
--
-- ARGV: now, entry, expected slot or empty, slot, jobs (see admit.lua).
-- Returns: nil, or text as add.lua does. A job that is held back by one that it may replace records nothing yet.
--
-- include: admit
local now = clock()
local key, expected, slot = P .. 'scheduler:vtasks_last_run:' .. arg(), arg(), arg()
-- Unreadable text counts as never, as in the 3.2 line.
if tonumber(call('GET', key) or '') ~= tonumber(expected) then
  return nil
end
local text = admit_all(now)
if not string.find(text, ' held ', 1, true) then
  call('SET', key, slot)
end
return text
