-- Settle what has finished and claim what there are free slots for.
--
-- ARGV: now, owner, nonce of the claims, dead-letter cap,
--       number of settlements that are simply over, of those that leave only a result, and of all others;
--       in this order the fields of all, the nonces of all (each with a newline),
--       milliseconds and record of each that leaves a result, the decision of each other (see settle.lua);
--       limit (0 claims nothing), number of queues, name and slots of each.
-- Returns: now, refused positions, letters evicted, name and number of claims of each queue, field and payload of each
-- claim.
local now = clock()
local owner, nonce, cap = arg(), arg(), number()
local inflight = P .. 'inflight:' .. owner
local over, kept, others = number(), number(), number()
local refused, evicted = {}, 0

-- The decisions that need more than a line; `standing` has what was found of each claim, false for none.
local function settle_others(standing, fields)
  -- include: places, records, leases, letters, unique, settle
  for i = 1, others do
    local after = position + 1 + ARGV[position + 1]
    if standing[over + kept + i] then
      write(now, ARGV[fields + over + kept + i])
    end
    position = after
  end
  evicted = flush_settled(cap)
end

local function settle()
  local find, fields, count = string.find, position, over + kept + others
  local standing = call('HMGET', inflight, unpack(ARGV, fields + 1, fields + count))
  local settled, number_settled, seen = {}, 0, {}
  for i = 1, count do
    local field = ARGV[fields + i]
    if standing[i] and not seen[field] and find(standing[i], ARGV[fields + count + i], 1, true) == 1 then
      seen[field] = true
      number_settled = number_settled + 1
      settled[number_settled] = field
    else
      standing[i] = false
      refused[#refused + 1] = i - 1
    end
  end
  -- The claims are removed before anything is written, so that a full server lets the whole script through.
  if number_settled > 0 then
    call('HDEL', inflight, unpack(settled))
  end
  position = fields + 2 * count

  local finished, number_finished = {}, 0
  for i = over + 1, over + kept do
    if standing[i] then
      local field = ARGV[fields + i]
      call('SET', P .. 'job:' .. field, ARGV[position + 2], 'PX', ARGV[position + 1])
      number_finished = number_finished + 1
      finished[number_finished] = field
    end
    position = position + 2
  end
  if number_finished > 0 then
    call('LPUSH', P .. 'finished', unpack(finished))
    call('LTRIM', P .. 'finished', 0, 9999)
  end
  if over + kept > 0 and call('EXISTS', P .. 'cancels', P .. 'waiting') > 0 then
    -- include: waits
    for i = 1, over + kept do
      if standing[i] then
        call('SREM', P .. 'cancels', ARGV[fields + i])
        tell_end(ARGV[fields + i])
      end
    end
  end
  if others > 0 then
    settle_others(standing, fields)
  end
end

if over + kept + others > 0 then
  settle()
end

local limit, queues = number(), number()
if limit == 0 or queues == 0 then
  return { now, refused, evicted, {}, {} }
end
local expiry = call('ZSCORE', P .. 'leases', owner)
if not expiry or tonumber(expiry) <= tonumber(now) then
  return { now, refused, evicted, {}, {} }
end

local wanted, lists, indexes = position, {}, {}
for i = 1, queues do
  local queue = ARGV[wanted + 2 * i - 1]
  lists[i] = P .. 'q:' .. queue
  indexes[i] = P .. 'prio:' .. queue
end
-- Most stores have none of these.
local paused, special, limited = {}, false, false
if call('EXISTS', P .. 'paused', P .. 'limited', unpack(indexes)) > 0 then
  limited = call('EXISTS', P .. 'limited') == 1
  special = limited or call('EXISTS', unpack(indexes)) > 0
  for _, queue in ipairs(call('SMEMBERS', P .. 'paused')) do
    paused[queue] = true
  end
end
local fields, payloads, heads, count = {}, {}, {}, 0

local function unusual_field(payload)
  -- include: fields
  return field_of(payload) or ''
end

-- Take up to `room` jobs off the front of one list; returns how many are wanted still.
local function take(list, room, head)
  local popped = room > 0 and call('RPOP', list, room)
  if not popped then
    return room
  end
  local match = string.match
  for i = 1, #popped do
    local payload = popped[i]
    count = count + 1
    payloads[count] = payload
    heads[count] = head
    -- Nearly every payload ends in an id of 32 characters.
    fields[count] = match(payload, '^"id":"([%w_-]+)"}$', -40) or unusual_field(payload)
  end
  return room - #popped
end

-- As `take`, over all priorities of a queue.
local function take_by_priority(i, room, head)
  -- include: places
  local queue = ARGV[wanted + 2 * i - 1]
  local took_plain = false
  for _, priority in ipairs(call('ZRANGE', indexes[i], 0, -1)) do
    if tonumber(priority) < 0 and not took_plain then
      room, took_plain = take(lists[i], room, head), true
    end
    room = take(ready_key(queue, priority), room, head)
    settle_priority(queue, priority)
  end
  return took_plain and room or take(lists[i], room, head)
end

-- As `take`, over all priorities of a queue that may have limited jobs: those whose limit is reached are parked, and
-- groups of parked ones that may go on come before the others of their priority.
local function take_limited(i, room, head)
  -- include: places, limits
  local queue, at, most = ARGV[wanted + 2 * i - 1], tonumber(now), 500

  local function claim(payload, keys, arrival)
    count = count + 1
    payloads[count], heads[count] = payload, head
    local field = string.match(payload, '^"id":"([%w_-]+)"}$', -40) or unusual_field(payload)
    if keys then
      if field == '' or call('HEXISTS', inflight, field) == 1 then
        field = '#' .. nonce .. '.' .. count
      end
      occupy(keys, at, arrival, field .. '\n' .. nonce .. '\n')
    end
    fields[count] = field
    room = room - 1
  end

  local due = {}
  local function consider(group)
    local payload, priority = first_parked(queue, group)
    if payload then
      due[group] = { payload = payload, priority = priority }
    else
      due[group] = nil
      call('ZREM', P .. 'lim:' .. queue, group)
    end
  end
  local names = call('ZRANGEBYSCORE', P .. 'lim:' .. queue, '-inf', now, 'LIMIT', 0, 100)
  if #names > 0 then
    -- A script whose first write frees memory runs to its end on a full server.
    call('HDEL', inflight, '')
  end
  for _, group in ipairs(names) do
    consider(group)
  end
  local function first_due()
    local best
    for _, group in ipairs(names) do
      if due[group] and (not best or due[group].priority > due[best].priority) then
        best = group
      end
    end
    return best
  end

  local function take_from_group(group)
    local keys = limit_of(due[group].payload)
    local allowed, arrival = admits(keys, at)
    if allowed then
      call('ZREM', parked_key(queue, group), due[group].payload)
      claim(due[group].payload, keys, arrival)
      consider(group)
    else
      stay(queue, keys, arrival)
      due[group] = nil
    end
  end

  -- Take up to `room` jobs off one list; false when it has no more.
  local function take_from_list(priority)
    local popped = call('RPOP', ready_key(queue, priority), room)
    for _, payload in ipairs(popped or {}) do
      local keys = limit_of(payload)
      if not keys then
        claim(payload)
      else
        local _, first = first_parked(queue, keys.group)
        local waits = first and first >= tonumber(priority)
        local allowed, arrival = false, nil
        if not waits then
          allowed, arrival = admits(keys, at)
        end
        if allowed then
          claim(payload, keys, arrival)
        else
          park(queue, priority, keys, payload)
          most = most - 1
          if not waits then
            stay(queue, keys, arrival)
          end
        end
      end
    end
    return popped
  end

  local levels = call('ZRANGE', indexes[i], 0, -1)
  local at_zero = 1
  while levels[at_zero] and tonumber(levels[at_zero]) > 0 do
    at_zero = at_zero + 1
  end
  table.insert(levels, at_zero, '0')
  local level, group = 1, first_due()
  while room > 0 and most > 0 and (group or levels[level]) do
    if group and (not levels[level] or due[group].priority >= tonumber(levels[level])) then
      take_from_group(group)
      group = first_due()
    elseif not take_from_list(levels[level]) then
      settle_priority(queue, levels[level])
      level = level + 1
    end
  end
  if levels[level] then
    settle_priority(queue, levels[level])
  end
  if call('ZCOUNT', P .. 'lim:' .. queue, '-inf', now) > 0 then
    wake(queue)
  end
  return most > 0 and room or 0
end

local counts, left, i = {}, limit, 1
while i <= queues and left > 0 do
  -- Of many queues most are empty: a block of them is passed over at once.
  local block = math.min(i + 15, queues)
  if queues > 8 and i % 16 == 1 and not special and call('EXISTS', unpack(lists, i, block)) == 0 then
    i = i + 16
  else
    local queue, room = ARGV[wanted + 2 * i - 1], math.min(tonumber(ARGV[wanted + 2 * i]), left)
    if room > 0 and not paused[queue] then
      local before, head = count, nonce .. '\n' .. now .. '\n' .. queue .. '\n'
      local rest
      if limited then
        rest = take_limited(i, room, head)
      else
        rest = special and take_by_priority(i, room, head) or take(lists[i], room, head)
      end
      if count > before then
        counts[#counts + 1] = queue
        counts[#counts + 1] = count - before
        left = left - (count - before)
      end
      -- Somebody else may have free slots for what remains.
      if rest == 0 and call('EXISTS', lists[i], indexes[i]) > 0 and call('EXISTS', P .. 'wake:' .. queue) == 0 then
        call('RPUSH', P .. 'wake:' .. queue, '1')
      end
    end
    i = i + 1
  end
end
if count == 0 then
  return { now, refused, evicted, {}, {} }
end
if count == 1 and fields[1] ~= '' and call('HSETNX', inflight, fields[1], heads[1] .. payloads[1]) == 1 then
  return { now, refused, evicted, counts, { fields[1], payloads[1] } }
end

local taken, seen, entries, claims = call('HMGET', inflight, unpack(fields)), {}, {}, {}
for n = 1, count do
  local field = fields[n]
  -- A field that is taken (the same bytes were pushed twice) or that the payload does not tell is made up.
  if taken[n] or seen[field] or field == '' then
    field = '#' .. nonce .. '.' .. n
  end
  seen[field] = true
  entries[2 * n - 1] = field
  entries[2 * n] = heads[n] .. payloads[n]
  claims[2 * n - 1] = field
  claims[2 * n] = payloads[n]
end
call('HSET', inflight, unpack(entries))
return { now, refused, evicted, counts, claims }
