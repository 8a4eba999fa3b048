-- Tell a worker what changed from outside, and which scheduled jobs are due.
--
-- ARGV: now, owner, limit, number of queues, the queues.
-- Returns: paused queues, fields and nonces of its cancelled claims, seconds until the next job is due or empty, due
-- jobs as queue, `sched:` or `schedh:`, and payload. A rate that lets the next job start counts as a job that is due.
--
-- An idle worker asks this once a second, so one EXISTS over everything comes first.
--
-- include: records, leases, push
local owner, limit = arg(), number()
local queues, keys, listed = {}, { P .. 'paused', P .. 'cancels' }, {}

local function consider(queue)
  if not listed[queue] then
    listed[queue] = true
    queues[#queues + 1] = queue
    keys[#keys + 1] = P .. 'sched:' .. queue
    keys[#keys + 1] = P .. 'schedh:' .. queue
    keys[#keys + 1] = P .. 'lim:' .. queue
  end
end

for _ = 1, number() do
  consider(arg())
end
for _, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
  consider(queue)
end
if call('EXISTS', unpack(keys)) == 0 then
  return { {}, {}, '', {} }
end

local now = clock()
local cancelled, due, next_due = {}, {}, nil

for _, id in ipairs(call('SMEMBERS', P .. 'cancels')) do
  local record = call('GET', P .. 'job:' .. id)
  local _, _, payload = parse_waiting(record or '')
  local holder, field, value = find_claim(id, payload)
  if holder == owner then
    cancelled[#cancelled + 1] = field
    cancelled[#cancelled + 1] = string.match(value, '^[^\n]*')
  end
end

local function look(name, queue)
  local key = P .. name .. queue
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if not first then
    return
  end
  local room = limit - #due / 3
  if tonumber(first) <= tonumber(now) and room > 0 then
    for _, payload in ipairs(call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, room)) do
      due[#due + 1] = queue
      due[#due + 1] = name
      due[#due + 1] = payload
    end
    first = call('ZRANGEBYSCORE', key, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
  if first then
    next_due = math.min(next_due or math.huge, tonumber(first) - tonumber(now))
  end
end

-- Jobs that wait for a limit: wake somebody for those that may go on.
local function look_at_limits(queue)
  local key = P .. 'lim:' .. queue
  if call('ZCOUNT', key, '-inf', now) > 0 then
    wake(queue)
  end
  local later = call('ZRANGEBYSCORE', key, '(' .. now, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if later then
    next_due = math.min(next_due or math.huge, tonumber(later) - tonumber(now))
  end
end

for _, queue in ipairs(queues) do
  look('sched:', queue)
  look('schedh:', queue)
  look_at_limits(queue)
end
local wait = next_due and string.format('%.6f', math.max(0, next_due)) or ''
return { call('SMEMBERS', P .. 'paused'), cancelled, wait, due }
