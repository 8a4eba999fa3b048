-- Move ready jobs of other priorities into q:<queue>, in order, where a 3.2 worker finds them.
--
-- ARGV: now, queue, limit.
-- Returns: how many were moved; call again until it is 0.
--
-- include: places, permits
local queue, limit = arg(), number()
local moved = 0

local function move(priority, from, to)
  while moved < limit and call('LMOVE', ready_key(queue, priority), ready_key(queue, '0'), from, to) do
    moved = moved + 1
  end
  settle_priority(queue, priority)
end

-- Those that wait for a limit first go back to the front of their own list.
for _, group in ipairs(call('ZRANGE', P .. 'lim:' .. queue, 0, -1)) do
  while moved < limit do
    local found = call('ZPOPMAX', parked_key(queue, group))
    if #found == 0 then
      break
    end
    push(queue, string.format('%.0f', -math.floor(tonumber(found[2]) / PRIORITY + 0.5)), 'RPUSH', { found[1] })
    moved = moved + 1
  end
  settle_group(queue, group)
end

-- The right end is the front: the highest priority is moved last to the front, the lowest last to the back.
local above = {}
for _, priority in ipairs(call('ZRANGE', P .. 'prio:' .. queue, 0, -1)) do
  if tonumber(priority) > 0 then
    table.insert(above, 1, priority)
  else
    move(priority, 'RIGHT', 'LEFT')
  end
end
for _, priority in ipairs(above) do
  move(priority, 'LEFT', 'RIGHT')
end
if moved > 0 then
  wake(queue)
end
return moved
