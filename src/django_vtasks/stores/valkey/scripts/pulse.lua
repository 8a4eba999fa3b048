-- Tell a worker what changed from outside, and which scheduled jobs are due.
--
-- ARGV: now, owner, limit, number of queues to be looked at for jobs that a 3.2 producer delayed, the queues.
-- Returns: paused queues, fields and nonces of its cancelled claims, seconds until the next job is due or empty, due
-- jobs as queue, `sched:` or `schedh:`, and payload. A rate that lets the next job start counts as a job that is due.
--
-- An idle worker asks this once a second, so `agenda` (a sorted set) says what there is to look at: q:<queue> with the
-- time at which its first delayed job is due, and with time 0 `paused` and `cancels` while these sets are not empty,
-- and `limited` once there was a limited job.
--
-- include: agenda
local owner, limit = arg(), number()

local foreign, keys = {}, {}
for i = 1, number() do
  foreign[i] = arg()
  keys[2 * i - 1], keys[2 * i] = P .. 'sched:' .. foreign[i], P .. 'schedh:' .. foreign[i]
end
if #keys > 0 and call('EXISTS', unpack(keys)) > 0 then
  insist()
  for i, queue in ipairs(foreign) do
    if call('EXISTS', keys[2 * i - 1], keys[2 * i]) > 0 then
      refresh(queue)
    end
  end
end

local first = call('ZRANGE', P .. 'agenda', 0, 0, 'WITHSCORES')
if not first[1] then
  return { {}, {}, '', {} }
end
local now = clock()
if tonumber(first[2]) > tonumber(now) then
  return { {}, {}, string.format('%.6f', tonumber(first[2]) - tonumber(now)), {} }
end

insist()
local paused, cancelled, due, next_due = {}, {}, {}, math.huge

-- Take up the due jobs of one set.
local function look(name, queue)
  local key, found = P .. name .. queue, false
  local room = limit - #due / 3
  for _, payload in ipairs(room > 0 and call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, room) or {}) do
    due[#due + 1] = queue
    due[#due + 1] = name
    due[#due + 1] = payload
    found = true
  end
  local later = call('ZRANGEBYSCORE', key, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  next_due = math.min(next_due, tonumber(later) or math.huge)
  return found
end

local function find_cancelled()
  -- include: records, leases
  local ids = call('SMEMBERS', P .. 'cancels')
  for _, id in ipairs(ids) do
    local record = call('GET', P .. 'job:' .. id)
    local _, _, payload = parse_waiting(record or '')
    local holder, field, value = find_claim(id, payload)
    if holder == owner then
      cancelled[#cancelled + 1] = field
      cancelled[#cancelled + 1] = string.match(value, '^[^\n]*')
    end
  end
  return #ids > 0
end

-- Jobs that wait for a limit: wake somebody for those that may go on.
local function look_at_limits()
  -- include: push
  local queues, waiting = call('SMEMBERS', P .. 'queues'), {}
  for i, queue in ipairs(queues) do
    waiting[i] = P .. 'lim:' .. queue
  end
  if #queues == 0 or call('EXISTS', unpack(waiting)) == 0 then
    return
  end
  for i, queue in ipairs(queues) do
    if call('ZCOUNT', waiting[i], '-inf', now) > 0 then
      wake(queue)
    end
    local later = call('ZRANGEBYSCORE', waiting[i], '(' .. now, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    next_due = math.min(next_due, tonumber(later) or math.huge)
  end
end

for _, entry in ipairs(call('ZRANGEBYSCORE', P .. 'agenda', '-inf', now)) do
  local true_still
  if entry == 'paused' then
    paused = call('SMEMBERS', P .. 'paused')
    true_still = #paused > 0
  elseif entry == 'limited' then
    look_at_limits()
    true_still = true
  elseif entry == 'cancels' then
    true_still = find_cancelled()
  else
    local queue = string.sub(entry, 3)
    local normal, high = look('sched:', queue), look('schedh:', queue)
    true_still = normal or high or #due >= 3 * limit
    if not true_still then
      refresh(queue)
      true_still = true
    end
  end
  if not true_still then
    call('ZREM', P .. 'agenda', entry)
  end
end
local upcoming = call('ZRANGEBYSCORE', P .. 'agenda', '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
next_due = math.min(next_due, tonumber(upcoming) or math.huge)
local wait = next_due < math.huge and string.format('%.6f', next_due - tonumber(now)) or ''
return { paused, cancelled, wait, due }
