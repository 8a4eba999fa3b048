-- Keep what an incarnation did in one span of time, over what it wrote of it before.
--
-- ARGV: now, span, owner, samples, seconds that they are kept.
-- Returns: nothing.
local span, owner, samples, seconds = arg(), arg(), arg(), number()
insist()
local key = P .. 'samples:' .. span
call('HSET', key, owner, samples)
call('EXPIRE', key, seconds)
