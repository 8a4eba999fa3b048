-- Limited jobs. limit is what a payload says in ext.limit; `limited` exists once there was any. permits:<key> has a member
-- for each lease with a permit: field newline nonce and newline. Ready jobs that wait for their limit are parked in
-- limq:<queue> newline <group> (score = minus the priority, times PRIORITY, plus a number); lim:<queue> says from when
-- on a group is worth a look (inf: when a permit is freed), limwait:<key> which groups wait for a permit of the key.
local PRIORITY = 2 ^ 40

local function limit_of(payload)
  if not string.find(payload, '"limit"', 1, true) then
    return nil
  end
  local decoded, job = pcall(cjson.decode, payload)
  local ext = decoded and type(job) == 'table' and job.ext
  local said = type(ext) == 'table' and ext.limit
  if type(said) ~= 'table' then
    return nil
  end
  local limit = {
    key = type(said.key) == 'string' and said.key or nil,
    count = math.max(1, tonumber(said.count) or 1),
    rate = type(said.rate_key) == 'string' and said.rate_key or nil,
    interval = math.max(0, tonumber(said.interval) or 0),
    burst = math.max(1, tonumber(said.burst) or 1),
  }
  if not limit.key and not limit.rate then
    return nil
  end
  limit.group = (limit.key or '') .. '|' .. (limit.rate or '')
  return limit
end

local function parked_key(queue, group)
  return P .. 'limq:' .. queue .. '\n' .. group
end

local function park(queue, priority, limit, payload, front)
  local number = front and -call('INCR', P .. 'limfront') or call('INCR', P .. 'limback')
  local score = string.format('%.0f', -tonumber(priority) * PRIORITY + number)
  call('ZADD', parked_key(queue, limit.group), score, payload)
  call('ZADD', P .. 'lim:' .. queue, 'NX', 0, limit.group)
end

-- Drop a group that has become empty.
local function settle_group(queue, group)
  if call('EXISTS', parked_key(queue, group)) == 0 then
    call('ZREM', P .. 'lim:' .. queue, group)
  end
end

-- Take a parked payload out; false when it is not parked.
local function unpark(queue, payload)
  local limit = limit_of(payload)
  if not limit or call('ZREM', parked_key(queue, limit.group), payload) == 0 then
    return false
  end
  settle_group(queue, limit.group)
  return true
end

-- A lease with this payload is over: those who wait for its permit are worth a look. Returns their queues.
local function free_permit(payload, member)
  local limit, queues = limit_of(payload), {}
  if not limit or not limit.key or call('SREM', P .. 'permits:' .. limit.key, member) == 0 then
    return queues
  end
  local waiting = P .. 'limwait:' .. limit.key
  for _, place in ipairs(call('SMEMBERS', waiting)) do
    local queue, group = string.match(place, '^([^\n]*)\n(.*)$')
    call('ZADD', P .. 'lim:' .. queue, 'XX', 0, group)
    queues[#queues + 1] = queue
  end
  call('DEL', waiting)
  return queues
end
