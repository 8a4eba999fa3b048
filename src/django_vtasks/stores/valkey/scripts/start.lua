-- Give back the unique keys that a job keeps only until it is claimed.
--
-- ARGV: now, number of keys, key and id of each.
-- Returns: nothing.
--
-- include: unique
for _ = 1, number() do
  unlock(arg(), arg(), false)
end
