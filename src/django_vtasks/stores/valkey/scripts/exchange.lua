-- Settle what has finished and claim what there are free slots for.
--
-- ARGV: now, owner, nonce of the claims, dead-letter cap,
--       number of settlements, their fields, their nonces, their decisions (see settle.lua),
--       limit (0 claims nothing), number of queues, name and slots of each.
-- Returns: now, refused positions, letters evicted, claims; the claims are
-- name and count of each queue followed by field and payload of each claim.
--
-- include: places, records, leases, letters, unique, settle
local now = clock()
local owner, nonce, cap = arg(), arg(), number()

local refused = settle_all(owner, now, number())
flush_settled(cap)

local limit, queues = number(), number()
if limit == 0 or queues == 0 then
  return { now, refused, evicted, {} }
end
if not lives(owner, now) then
  return { now, refused, evicted, {} }
end

local paused = {}
for _, queue in ipairs(call('SMEMBERS', P .. 'paused')) do
  paused[queue] = true
end

-- Which of the wanted queues have jobs of another priority than 0.
local indexes = {}
for i = 1, queues do
  indexes[i] = P .. 'prio:' .. ARGV[position + 2 * i - 1]
end
local prioritised = call('EXISTS', unpack(indexes)) > 0

local function take(queue, priority, room, taken)
  if room <= 0 then
    return
  end
  local popped = call('RPOP', ready_key(queue, priority), room)
  for _, payload in ipairs(popped or {}) do
    taken[#taken + 1] = payload
  end
  if not popped or #popped < room then
    settle_priority(queue, priority)
  end
end

local function take_from(queue, room)
  local taken, below = {}, {}
  if prioritised then
    for _, priority in ipairs(call('ZRANGE', P .. 'prio:' .. queue, 0, -1)) do
      if tonumber(priority) > 0 then
        take(queue, priority, room - #taken, taken)
      else
        below[#below + 1] = priority
      end
    end
  end
  take(queue, '0', room - #taken, taken)
  for _, priority in ipairs(below) do
    take(queue, priority, room - #taken, taken)
  end
  return taken
end

local claims, payloads, from = {}, {}, {}
local reply = {}
for _ = 1, queues do
  local queue, slots = arg(), number()
  local room = math.min(slots, limit - #payloads)
  if room > 0 and not paused[queue] then
    local taken = take_from(queue, room)
    if #taken > 0 then
      reply[#reply + 1] = { queue, #taken }
    end
    for _, payload in ipairs(taken) do
      payloads[#payloads + 1] = payload
      from[#from + 1] = queue
    end
    -- Somebody else may have free slots for the rest.
    if #taken == room and (call('EXISTS', P .. 'q:' .. queue, P .. 'prio:' .. queue) > 0) then
      wake(queue)
    end
  end
end
if #payloads == 0 then
  return { now, refused, evicted, {} }
end

-- A field that is taken (the same bytes were pushed twice) or that the payload does not tell gets a number.
local fields, seen = {}, {}
for i, payload in ipairs(payloads) do
  local field = field_of(payload)
  if not field or seen[field] then
    field = '#' .. nonce .. '.' .. i
  end
  seen[field] = true
  fields[i] = field
end
local inflight = P .. 'inflight:' .. owner
local before = call('HMGET', inflight, unpack(fields))
local entries = {}
for i, payload in ipairs(payloads) do
  if before[i] then
    fields[i] = '#' .. nonce .. '.' .. i
  end
  entries[2 * i - 1] = fields[i]
  entries[2 * i] = nonce .. '\n' .. now .. '\n' .. from[i] .. '\n' .. payload
end
call('HSET', inflight, unpack(entries))

local done = 0
for _, part in ipairs(reply) do
  claims[#claims + 1] = part[1]
  claims[#claims + 1] = part[2]
  for i = done + 1, done + part[2] do
    claims[#claims + 1] = fields[i]
    claims[#claims + 1] = payloads[i]
  end
  done = done + part[2]
end
return { now, refused, evicted, claims }
