-- Put a debouncing job in the place of the one that waits under its key.
--
-- ARGV: now, key, id of the waiting job, its record as read, the new payload, destination queue and priority,
--       epoch at which it is due or empty; dead letter that goes or empty; schedule entry or empty, its expected slot
--       or empty, its slot.
-- Returns: 1, or 0 when something is no longer as it was read.
--
-- include: places, records, letters, unique, slots
local now = clock()
local key, id, record, payload, queue, priority, due = arg(), arg(), arg(), arg(), arg(), arg(), arg()
local letter, entry, expected, slot = arg(), arg(), arg(), arg()
local slot_key = P .. 'scheduler:vtasks_last_run:' .. entry
if holder_of(call('GET', P .. 'unique:' .. key)) ~= id or call('GET', P .. 'job:' .. id) ~= record then
  return 0
end
if letter ~= '' and not has_letter(letter) then
  return 0
end
if entry ~= '' and not last_slot_is(slot_key, expected) then
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
if letter ~= '' then
  unearth({ letter })
end
if entry ~= '' then
  call('SET', slot_key, slot)
end
return 1
