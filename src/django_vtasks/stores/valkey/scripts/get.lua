-- Read all that is known of a job.
--
-- ARGV: now, id.
-- Returns: now, record or nil, letter or nil, progress as field and value, place, owner, claim; the place is `leased`
-- (with owner and value of the claim), `scheduled` (with its epoch in place of the owner) or empty.
--
-- include: records, leases
local now, id = clock(), arg()
local record = call('GET', P .. 'job:' .. id)
local letter = call('HGET', P .. 'letters', id)
local progress = call('HGETALL', P .. 'progress:' .. id)
local queue, priority, payload
if record then
  queue, priority, payload = parse_waiting(record)
end
if not letter and (not record or payload) then
  local owner, _, value = find_claim(id, payload)
  if owner then
    return { now, record, letter, progress, 'leased', owner, value }
  end
end
if payload then
  local due = call('ZSCORE', P .. 'sched:' .. queue, payload) or call('ZSCORE', P .. 'schedh:' .. queue, payload)
  if due then
    return { now, record, letter, progress, 'scheduled', due, '' }
  end
end
return { now, record, letter, progress, '', '', '' }
