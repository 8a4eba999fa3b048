-- The metadata that running jobs recorded.
--
-- ARGV: now, number of ids, the ids.
-- Returns: the metadata of each, empty when there is none.
local found = {}
for i = 1, number() do
  found[i] = call('HGET', P .. 'progress:' .. arg(), 'metadata') or ''
end
return found
