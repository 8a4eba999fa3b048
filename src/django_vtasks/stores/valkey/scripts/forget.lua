-- Remove dead letters or results with all that is known of their jobs.
--
-- ARGV: now, number of jobs, id and letter (or empty) of each.
-- Returns: how many were there.
--
-- include: letters
local removed = 0
for _ = 1, number() do
  local id, letter = arg(), arg()
  local known = call('DEL', P .. 'job:' .. id) == 1
  call('DEL', P .. 'progress:' .. id)
  if letter ~= '' then
    known = unearth(letter)
  else
    call('LREM', P .. 'finished', 1, id)
  end
  removed = removed + (known and 1 or 0)
end
return removed
