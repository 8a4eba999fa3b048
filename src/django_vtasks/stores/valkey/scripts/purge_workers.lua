-- Forget workers whose lease is over and who hold no job.
--
-- ARGV: now, limit.
-- Returns: how many were forgotten.
--
-- include: leases
local now, limit = clock(), number()
local gone = 0
local function consider(owner)
  if gone < limit and not lives(owner, now) and call('EXISTS', P .. 'inflight:' .. owner) == 0 then
    forget_worker(owner)
    gone = gone + 1
  end
end
for _, owner in ipairs(call('ZRANGEBYSCORE', P .. 'leases', '-inf', now)) do
  consider(owner)
end
for _, owner in ipairs(call('HKEYS', P .. 'workers')) do
  consider(owner)
end
return gone
