-- Let no worker claim from a queue.
--
-- ARGV: now, queue.
-- Returns: nothing.
local queue = arg()
insist()
call('SADD', P .. 'paused', queue)
call('ZADD', P .. 'agenda', 0, 'paused')
call('DEL', P .. 'wake:' .. queue)
