-- Remove dead letters or results with all that is known of their jobs.
--
-- ARGV: now, number of jobs, id and letter (or empty) of each.
-- Returns: how many were there.
--
-- include: letters
local removed, letters = 0, {}
for _ = 1, number() do
  local id, letter = arg(), arg()
  local known = call('DEL', P .. 'job:' .. id)
  if letter ~= '' then
    letters[#letters + 1] = letter
  else
    call('LREM', P .. 'finished', 1, id)
    removed = removed + known
  end
  call('DEL', P .. 'progress:' .. id)
end
return removed + unearth(letters)
