-- What keeps a job where it is.
--
-- ARGV: now, id, queue, priority, payload or empty (only of a ready job), unique key or empty, owner or empty, limit.
-- Returns: jobs ahead, those ahead by priority, holder of the key or nil, end of the lease or nil, cancel requested,
-- permits of the concurrency key, epoch at which the rate lets the next job start or nil.
--
-- include: places, unique, limits
local now, id, queue, priority, payload = clock(), arg(), arg(), arg(), arg()
local key, owner, limit = arg(), arg(), number()

local ahead, by_priority = 0, 0
if payload ~= '' then
  for _, other in ipairs(call('ZRANGE', P .. 'prio:' .. queue, 0, -1)) do
    if tonumber(other) > tonumber(priority) then
      by_priority = by_priority + call('LLEN', ready_key(queue, other))
    end
  end
  if tonumber(priority) < 0 then
    by_priority = by_priority + call('LLEN', ready_key(queue, '0'))
  end
  local line = ready_key(queue, priority)
  local place = call('LPOS', line, payload, 'RANK', -1, 'MAXLEN', limit)
  local keys = not place and limit_of(payload)
  local parked = keys and call('ZRANK', parked_key(queue, keys.group), payload)
  if parked then
    by_priority = call('ZCOUNT', parked_key(queue, keys.group), '-inf', string.format('%.0f', (-tonumber(priority) - 0.5) * PRIORITY))
    ahead = parked
  else
    ahead = by_priority + (place and call('LLEN', line) - 1 - place or limit)
  end
end
local holder = false
if key ~= '' then
  local value = call('GET', P .. 'unique:' .. key)
  if value and not is_void(value, now) and holder_of(value) ~= id then
    holder = holder_of(value)
  end
end
local permits, free_at = {}, false
local keys = payload ~= '' and limit_of(payload)
if keys and keys.key then
  permits = call('SMEMBERS', P .. 'permits:' .. keys.key)
end
if keys and keys.rate then
  keys.key = nil
  local allowed, later = admits(keys, tonumber(now))
  free_at = not allowed and string.format('%.6f', later)
end
local ends = owner ~= '' and call('ZSCORE', P .. 'leases', owner)
return {
  math.min(ahead, limit),
  math.min(by_priority, limit),
  holder,
  ends and tonumber(ends) > 0 and ends,
  call('SISMEMBER', P .. 'cancels', id),
  permits,
  free_at,
}
