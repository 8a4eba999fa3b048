-- How many jobs of each queue are in flight.
--
-- ARGV: now.
-- Returns: queue and number of each.
local count = {}
for _, owner in ipairs(call('ZRANGE', P .. 'leases', 0, -1)) do
  for _, value in ipairs(call('HVALS', P .. 'inflight:' .. owner)) do
    local queue = string.match(value, '^[^\n]*\n[^\n]*\n([^\n]*)\n')
    count[queue] = (count[queue] or 0) + 1
  end
end
local found = {}
for queue, jobs in pairs(count) do
  found[#found + 1] = queue
  found[#found + 1] = jobs
end
return found
