-- Remove dead letters.
--
-- ARGV: now, number of letters, the letters.
-- Returns: how many were there.
--
-- include: letters
local dropped = 0
for _ = 1, number() do
  if unearth(arg()) then
    dropped = dropped + 1
  end
end
return dropped
