-- Publish what a worker says of itself. alive:<worker id> is what operators of the 3.2 line look at.
--
-- ARGV: now, owner, worker id, milliseconds alive:<worker id> lasts, description, number of queues, the queues.
-- Returns: nothing.
--
-- include: leases
local now, owner, worker, milliseconds, description = clock(), arg(), arg(), arg(), arg()
insist()
call('HSET', P .. 'workers', owner, now .. '\n' .. description)
call('SET', P .. 'alive:' .. worker, worker, 'PX', milliseconds)
if number() > 0 then
  call('SADD', P .. 'queues', unpack(ARGV, position + 1))
end
