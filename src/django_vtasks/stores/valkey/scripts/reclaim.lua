-- Settle claims of an owner whose lease is over; what a live owner holds is refused.
--
-- ARGV: now, owner, dead-letter cap, number of settlements, their fields, their nonces, their decisions (settle.lua).
-- Returns: refused positions, letters evicted.
--
-- include: places, records, leases, letters, unique, settle
local now = clock()
local owner, cap, count = arg(), number(), number()
local inflight, fields = P .. 'inflight:' .. owner, position
position = position + 2 * count

local over = not lives(owner, now)
local refused = {}
for i = 1, count do
  local field, after = ARGV[fields + i], position + 1 + ARGV[position + 1]
  if over and is_claim(call('HGET', inflight, field), ARGV[fields + count + i]) then
    call('HDEL', inflight, field)
    write(now, field)
  else
    refused[#refused + 1] = i - 1
  end
  position = after
end
if over and call('EXISTS', inflight) == 0 then
  forget_worker(owner)
end
return { refused, flush_settled(cap) }
