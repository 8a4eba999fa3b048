-- Renew the lease of an incarnation.
--
-- ARGV: now, owner, seconds.
-- Returns: 1 when there was a live lease, else 0.
--
-- include: leases
local now, owner, seconds = clock(), arg(), number()
insist()
local alive = lives(owner, now) and 1 or 0
call('ZADD', P .. 'leases', string.format('%.6f', tonumber(now) + seconds), owner)
return alive
