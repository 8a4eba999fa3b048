-- Where waiting jobs are. Priority 0 lives in q:<queue>, as for the 3.2 line; any other in p:<queue>:<priority>, and
-- prio:<queue> (score = minus the priority) names those lists that are not empty. The right end is the front.
local function wake(queue)
  local key = P .. 'wake:' .. queue
  if call('EXISTS', key) == 0 then
    call('RPUSH', key, '1')
  end
end

local function ready_key(queue, priority)
  if priority == '0' then
    return P .. 'q:' .. queue
  end
  return P .. 'p:' .. queue .. ':' .. priority
end

local function delayed_key(queue, priority)
  return P .. (tonumber(priority) > 0 and 'schedh:' or 'sched:') .. queue
end

local function push(queue, priority, command, payloads)
  if priority ~= '0' then
    call('ZADD', P .. 'prio:' .. queue, -tonumber(priority), priority)
  end
  local length = call(command, ready_key(queue, priority), unpack(payloads))
  if length == #payloads then
    wake(queue)
  end
end

local function delay(queue, priority, due, payload)
  call('ZADD', delayed_key(queue, priority), due, payload)
  call('SADD', P .. 'queues', queue)
end

-- Drop a priority whose list has become empty.
local function settle_priority(queue, priority)
  if priority ~= '0' and call('EXISTS', ready_key(queue, priority)) == 0 then
    call('ZREM', P .. 'prio:' .. queue, priority)
  end
end

-- Take a payload out of wherever it waits, looking from the front; false when it does not wait.
local function withdraw(queue, priority, payload)
  if call('ZREM', P .. 'sched:' .. queue, payload) + call('ZREM', P .. 'schedh:' .. queue, payload) > 0 then
    return true
  end
  if call('LREM', ready_key(queue, priority), -1, payload) > 0 then
    settle_priority(queue, priority)
    return true
  end
  -- A 3.2 worker promotes a delayed job of any priority into q:<queue>.
  return priority ~= '0' and call('LREM', P .. 'q:' .. queue, -1, payload) > 0
end
