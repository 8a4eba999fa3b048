-- End a pause.
--
-- ARGV: now, queue.
-- Returns: nothing.
--
-- include: push
local queue = arg()
call('SREM', P .. 'paused', queue)
wake(queue)
