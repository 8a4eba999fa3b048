-- Have a listener told when a job ends.
--
-- ARGV: now, id, name of the listener, milliseconds that this is remembered.
local id, listener, milliseconds = arg(), arg(), arg()
call('SADD', P .. 'waits:' .. id, listener)
call('PEXPIRE', P .. 'waits:' .. id, milliseconds)
call('SET', P .. 'waiting', '1', 'PX', milliseconds)
return ''
