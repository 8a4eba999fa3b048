-- Put a debouncing job in the place of the one that waits under its key.
--
-- ARGV: now, key, id of the waiting job, its record as read, the new payload, destination queue and priority,
--       epoch at which it is due or empty.
-- Returns: 1, or 0 when the waiting job moved on meanwhile.
--
-- include: places, records, unique
local now = clock()
local key, id, record, payload, queue, priority, due = arg(), arg(), arg(), arg(), arg(), arg(), arg()
if holder_of(call('GET', P .. 'unique:' .. key)) ~= id or call('GET', P .. 'job:' .. id) ~= record then
  return 0
end
if not withdraw(parse_waiting(record)) then
  return 0
end
if due ~= '' and tonumber(due) > tonumber(now) then
  delay(queue, priority, due, payload)
  keep_waiting(id, queue, priority, payload, (tonumber(due) - tonumber(now)) * 1000)
else
  push(queue, priority, 'LPUSH', { payload })
  keep_waiting(id, queue, priority, payload, 0)
end
return 1
