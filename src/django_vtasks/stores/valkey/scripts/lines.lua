-- The lists of ready jobs of some queues, in the order in which they will be claimed.
--
-- ARGV: now, number of queues, the queues.
-- Returns: queue, key and length of each list that is not empty.
--
-- include: places
local found = {}
local function note(queue, priority)
  local key = ready_key(queue, priority)
  local length = call('LLEN', key)
  if length > 0 then
    found[#found + 1] = queue
    found[#found + 1] = key
    found[#found + 1] = length
  end
end
for _ = 1, number() do
  local queue = arg()
  local below = {}
  for _, priority in ipairs(call('ZRANGE', P .. 'prio:' .. queue, 0, -1)) do
    if tonumber(priority) > 0 then
      note(queue, priority)
    else
      below[#below + 1] = priority
    end
  end
  note(queue, '0')
  for _, priority in ipairs(below) do
    note(queue, priority)
  end
end
return found
