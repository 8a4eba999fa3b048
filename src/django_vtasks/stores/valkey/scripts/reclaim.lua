-- Settle claims of an owner whose lease is over; what a live owner holds is refused.
--
-- ARGV: now, owner, dead-letter cap, number of settlements, their fields, their nonces, their decisions.
-- Returns: refused positions, letters evicted.
--
-- include: places, records, leases, letters, unique, settle
local now = clock()
local owner, cap, count = arg(), number(), number()
if lives(owner, now) then
  local all = {}
  for i = 1, count do
    all[i] = i - 1
  end
  return { all, 0 }
end
local refused = settle_all(owner, now, count)
flush_settled(cap)
if call('EXISTS', P .. 'inflight:' .. owner) == 0 then
  forget_worker(owner)
end
return { refused, evicted }
