-- Write down when the first delayed job of a queue is due, as it is now.
local function refresh(queue)
  local normal = call('ZRANGE', P .. 'sched:' .. queue, 0, 0, 'WITHSCORES')[2]
  local high = call('ZRANGE', P .. 'schedh:' .. queue, 0, 0, 'WITHSCORES')[2]
  if normal or high then
    local first = math.min(tonumber(normal) or math.huge, tonumber(high) or math.huge)
    call('ZADD', P .. 'agenda', string.format('%.6f', first), 'q:' .. queue)
  else
    call('ZREM', P .. 'agenda', 'q:' .. queue)
  end
end
