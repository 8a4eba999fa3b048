-- Remove waiting jobs with all that is known of them.
--
-- ARGV: now, number of jobs; of each: id, queue, priority, payload, unique key or empty.
-- Returns: how many were there.
--
-- include: places, unique, waits
local removed = 0
for _ = 1, number() do
  local id, queue, priority, payload, key = arg(), arg(), arg(), arg(), arg()
  if withdraw(queue, priority, payload) then
    call('DEL', P .. 'job:' .. id, P .. 'progress:' .. id)
    call('SREM', P .. 'cancels', id)
    tell_end(id)
    if key ~= '' then
      unlock(key, id, true)
    end
    removed = removed + 1
  end
end
return removed
