-- Record a slot of a schedule entry and add its job, if the last slot is the expected one.
--
-- ARGV: now, entry, expected slot or empty, slot, jobs (see admit.lua).
-- Returns: nil, or text as add.lua does.
--
-- include: admit
local now = clock()
local key, expected, slot = P .. 'scheduler:vtasks_last_run:' .. arg(), arg(), arg()
local last = tonumber(call('GET', key) or '')
-- Text that is no finite number counts as never, as in the 3.2 line.
if last and (last ~= last or last - last ~= 0) then
  last = nil
end
if last ~= tonumber(expected) then
  return nil
end
call('SET', key, slot)
return admit_all(now)
