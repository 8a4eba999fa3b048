-- Take a waiting job out and bury it, or note that a leased one is to be cancelled.
--
-- ARGV: now, id, its record as read or empty, letter (empty for a leased job), unique key or empty, dead-letter cap,
--       milliseconds that the result is kept or 0, its record.
-- Returns: `cancelled`, `requested`, or `moved` when the job is no longer where the record said.
--
-- include: places, records, leases, letters, unique, waits
local id, record, letter, key, cap, milliseconds, result = arg(), arg(), arg(), arg(), number(), number(), arg()
insist()
local current = call('GET', P .. 'job:' .. id) or ''
if current ~= record then
  return 'moved'
end
local queue, priority, payload
if record ~= '' then
  queue, priority, payload = parse_waiting(record)
end
if find_claim(id, payload) then
  call('SADD', P .. 'cancels', id)
  call('ZADD', P .. 'agenda', 0, 'cancels')
  return 'requested'
end
if letter == '' or not payload or not withdraw(queue, priority, payload) then
  return 'moved'
end
bury(id, queue, letter)
evict(cap, 1000)
call('SREM', P .. 'cancels', id)
if key ~= '' then
  unlock(key, id, false)
end
if milliseconds > 0 then
  call('SET', P .. 'job:' .. id, result, 'PX', string.format('%.0f', milliseconds))
  call('LPUSH', P .. 'finished', id)
  call('LTRIM', P .. 'finished', 0, RESULTS_LISTED - 1)
else
  call('DEL', P .. 'job:' .. id)
end
tell_end(id)
return 'cancelled'
