-- Record a slot of a schedule entry and add its job, if the last slot is the expected one.
--
-- ARGV: now, entry, expected slot or empty, slot, jobs (see admit.lua).
-- Returns: nil, or text as add.lua does. A job that is held back by one that it may replace records nothing yet.
--
-- include: admit, slots
local now = clock()
local key, expected, slot = P .. 'scheduler:vtasks_last_run:' .. arg(), arg(), arg()
if not last_slot_is(key, expected) then
  return nil
end
local text = admit_all(now)
if not string.find(text, ' held ', 1, true) then
  call('SET', key, slot)
end
return text
