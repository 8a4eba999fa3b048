-- Whether limited jobs may start now (`jobs.limits.admit` is the model), and what is written when they do.
-- include: permits
local function number_at(key)
  return tonumber(call('GET', key) or '')
end

-- Whether a job may start; if not, when to look again, if so, what its rate's next arrival is.
local function admits(limit, now)
  if limit.key and call('SCARD', P .. 'permits:' .. limit.key) >= limit.count then
    return false, math.huge
  end
  if not limit.rate then
    return true
  end
  local due = math.max(now, number_at(P .. 'tat:' .. limit.rate) or now)
  local earliest = due - (limit.burst - 1) * limit.interval
  if now < earliest then
    return false, earliest
  end
  return true, due + limit.interval
end

local function occupy(limit, now, arrival, member)
  if limit.key then
    call('SADD', P .. 'permits:' .. limit.key, member)
  end
  if limit.rate then
    local milliseconds = string.format('%.0f', (arrival - now) * 1000 + 1000)
    call('SET', P .. 'tat:' .. limit.rate, string.format('%.6f', arrival), 'PX', milliseconds)
  end
end

-- The first job of a group could not start: nobody looks before it can.
local function stay(queue, limit, look_at)
  if look_at < math.huge then
    call('ZADD', P .. 'lim:' .. queue, string.format('%.6f', look_at), limit.group)
  else
    call('ZADD', P .. 'lim:' .. queue, '+inf', limit.group)
    call('SADD', P .. 'limwait:' .. limit.key, queue .. '\n' .. limit.group)
  end
end

-- The payload and the priority of the first job of a group, or nil.
local function first_parked(queue, group)
  local found = call('ZRANGE', parked_key(queue, group), 0, 0, 'WITHSCORES')
  return found[1], found[2] and -math.floor(tonumber(found[2]) / PRIORITY + 0.5)
end
