-- Make a scheduled job ready at once.
--
-- ARGV: now, id or empty (no record), queue, priority, payload, payload as a ready job.
-- Returns: 1, or 0 when it is not scheduled.
--
-- include: places, records
local id, queue, priority, payload, ready = arg(), arg(), arg(), arg(), arg()
if not undelay(queue, payload) then
  return 0
end
push(queue, priority, 'LPUSH', { ready })
if id ~= '' then
  keep_waiting(id, queue, priority, ready, 0)
end
return 1
