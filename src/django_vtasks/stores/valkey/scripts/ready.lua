-- Whether any of some queues has ready jobs and is not paused.
--
-- ARGV: now, number of queues, the queues.
-- Returns: 1 or 0.
for _ = 1, number() do
  local queue = arg()
  if call('EXISTS', P .. 'q:' .. queue, P .. 'prio:' .. queue) > 0 and call('SISMEMBER', P .. 'paused', queue) == 0 then
    return 1
  end
end
return 0
