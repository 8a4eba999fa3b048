-- List claims whose lease is over.
--
-- ARGV: now, limit.
-- Returns: now; owner, field and value of each.
--
-- include: leases
local now, limit = clock(), number()
local found = {}
for _, owner in ipairs(call('ZRANGEBYSCORE', P .. 'leases', '-inf', now)) do
  local entries = call('HGETALL', P .. 'inflight:' .. owner)
  for i = 1, #entries, 2 do
    if #found >= 3 * limit then
      return { now, found }
    end
    found[#found + 1] = owner
    found[#found + 1] = entries[i]
    found[#found + 1] = entries[i + 1]
  end
end
return { now, found }
