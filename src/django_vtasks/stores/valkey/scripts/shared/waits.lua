-- Who waits for the end of a job: waits:<id> has the names of the listeners, each of whom has a list ended:<name>. The
-- key `waiting` exists while there may be any, so that nothing else is looked at while nobody waits.
local function tell_end(id)
  local listeners = call('SMEMBERS', P .. 'waits:' .. id)
  for _, listener in ipairs(listeners) do
    call('RPUSH', P .. 'ended:' .. listener, id)
    call('PEXPIRE', P .. 'ended:' .. listener, 60000)
  end
  if #listeners > 0 then
    call('DEL', P .. 'waits:' .. id)
  end
end
