-- The groups of ready jobs of some queues that wait for a limit.
--
-- ARGV: now, number of queues, the queues.
-- Returns: queue, key and number of jobs of each.
--
-- include: permits
local found = {}
for _ = 1, number() do
  local queue = arg()
  for _, group in ipairs(call('ZRANGE', P .. 'lim:' .. queue, 0, -1)) do
    local key = parked_key(queue, group)
    found[#found + 1] = queue
    found[#found + 1] = key
    found[#found + 1] = call('ZCARD', key)
  end
end
return found
