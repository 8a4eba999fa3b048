-- Settle one job out of the list of a 3.2 worker that is no longer alive. Taking its bytes out of the list is the fence.
--
-- ARGV: now, worker id, dead-letter cap, payload, decision (see settle.lua).
-- Returns: whether it was written, letters evicted.
--
-- include: places, records, leases, letters, unique, settle
local now = clock()
local worker, cap, payload = arg(), number(), arg()
if call('EXISTS', P .. 'alive:' .. worker) == 1 then
  return { 0, 0 }
end
if call('LREM', P .. 'processing:' .. worker, 1, payload) == 0 then
  return { 0, 0 }
end
write(now, field_of(payload) or '')
return { 1, flush_settled(cap) }
