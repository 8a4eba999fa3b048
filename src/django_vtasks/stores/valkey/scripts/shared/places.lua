-- Where waiting jobs are, delayed ones included.
-- include: push, agenda
local function delayed_key(queue, priority)
  return P .. (tonumber(priority) > 0 and 'schedh:' or 'sched:') .. queue
end

local function delay(queue, priority, due, payload)
  call('ZADD', delayed_key(queue, priority), due, payload)
  call('ZADD', P .. 'agenda', 'LT', due, 'q:' .. queue)
end

-- Take a delayed payload out; false when it is not delayed.
local function undelay(queue, payload)
  if call('ZREM', P .. 'sched:' .. queue, payload) + call('ZREM', P .. 'schedh:' .. queue, payload) == 0 then
    return false
  end
  refresh(queue)
  return true
end

-- Drop a priority whose list has become empty.
local function settle_priority(queue, priority)
  if priority ~= '0' and call('EXISTS', ready_key(queue, priority)) == 0 then
    call('ZREM', P .. 'prio:' .. queue, priority)
  end
end

-- Take a payload out of wherever it waits, looking from the front; false when it does not wait.
local function withdraw(queue, priority, payload)
  if undelay(queue, payload) then
    return true
  end
  if call('LREM', ready_key(queue, priority), -1, payload) > 0 then
    settle_priority(queue, priority)
    return true
  end
  if call('EXISTS', P .. 'limited') == 1 then
    -- include: permits
    if unpark(queue, payload) then
      return true
    end
  end
  -- A 3.2 worker promotes a delayed job of any priority into q:<queue>.
  return priority ~= '0' and call('LREM', P .. 'q:' .. queue, -1, payload) > 0
end
