-- Make due jobs ready. Removing the payload from its set decides who moves it.
--
-- ARGV: now, number of jobs; of each: `sched:` or `schedh:`, queue, priority, payload.
-- Returns: how many were moved.
--
-- include: push, agenda
local moved, queues = 0, {}
for _ = 1, number() do
  local name, queue, priority, payload = arg(), arg(), arg(), arg()
  if call('ZREM', P .. name .. queue, payload) == 1 then
    push(queue, priority, 'LPUSH', { payload })
    moved = moved + 1
  end
  queues[queue] = true
end
for queue in pairs(queues) do
  refresh(queue)
end
return moved
