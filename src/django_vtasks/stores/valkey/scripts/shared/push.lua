-- Where ready jobs are. Priority 0 lives in q:<queue>, as for the 3.2 line; any other in p:<queue>:<priority>, and
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

local function push(queue, priority, command, payloads)
  if priority ~= '0' then
    call('ZADD', P .. 'prio:' .. queue, -tonumber(priority), priority)
  end
  local length = call(command, ready_key(queue, priority), unpack(payloads))
  if length == #payloads then
    wake(queue)
  end
end
