-- Remove the oldest dead letters, as long as they are those that were read.
--
-- ARGV: now, number of letters, the letters from the oldest.
-- Returns: how many were removed.
--
-- include: letters
local dropped = 0
for _ = 1, number() do
  if call('LINDEX', P .. 'q:failed', -1) ~= arg() then
    return dropped
  end
  forget_letter(call('RPOP', P .. 'q:failed'))
  dropped = dropped + 1
end
return dropped
