-- Take ids off the end of the list of results.
--
-- ARGV: now, number of ids, the ids from the last one.
-- Returns: how many were there still.
local dropped = 0
for _ = 1, number() do
  local id = arg()
  if call('LINDEX', P .. 'finished', -1) ~= id then
    return dropped
  end
  call('RPOP', P .. 'finished')
  call('DEL', P .. 'job:' .. id, P .. 'progress:' .. id)
  dropped = dropped + 1
end
return dropped
