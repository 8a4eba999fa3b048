-- Put dead letters in, except those whose id is known.
--
-- ARGV: now, dead-letter cap, number of letters; id, queue and payload of each.
-- Returns: how many were put in.
--
-- include: letters
local cap, restored = number(), 0
for _ = 1, number() do
  local id, queue, letter = arg(), arg(), arg()
  if call('EXISTS', P .. 'job:' .. id) == 0 and call('HEXISTS', P .. 'letters', id) == 0 then
    bury(id, queue, letter)
    restored = restored + 1
  end
end
evict(cap, 1000)
return restored
