-- End the lease of an incarnation. What it still has in flight is for others to reclaim.
--
-- ARGV: now, owner.
-- Returns: nothing.
--
-- include: leases
local owner = arg()
insist()
if call('EXISTS', P .. 'inflight:' .. owner) == 0 then
  forget_worker(owner)
elseif call('ZSCORE', P .. 'leases', owner) then
  call('ZADD', P .. 'leases', 0, owner)
  call('HDEL', P .. 'workers', owner)
end
