-- Write decisions. Per settlement: how many arguments follow, the operations, and their arguments in turn.
local forgotten = {}
local finished = {}
local buried = false
local watched = call('EXISTS', P .. 'cancels', P .. 'waiting') > 0

local function ended(id)
  if watched then
    -- include: waits
    call('SREM', P .. 'cancels', id)
    tell_end(id)
  end
end

local function requeue_record(id, queue, priority, payload, milliseconds)
  if id ~= '' then
    keep_waiting(id, queue, priority, payload, milliseconds)
    call('HDEL', P .. 'progress:' .. id, 'metadata')
  end
end

local operations = {
  -- give the permit back: payload, field and nonce
  l = function()
    -- include: permits
    for _, queue in ipairs(free_permit(arg(), arg())) do
      wake(queue)
    end
  end,
  -- wait again before all others with the same limit: id or empty, queue, priority, payload
  f = function()
    -- include: permits
    local id, queue, priority, payload = arg(), arg(), arg(), arg()
    local limit = limit_of(payload)
    if limit then
      park(queue, priority, limit, payload, true)
      call('ZADD', P .. 'lim:' .. queue, 0, limit.group)
      wake(queue)
    else
      push(queue, priority, 'RPUSH', { payload })
    end
    requeue_record(id, queue, priority, payload, 0)
  end,
  -- give the unique key back: key, id
  u = function()
    unlock(arg(), arg(), true)
  end,
  -- keep the result: id, milliseconds, record
  r = function()
    local id, milliseconds, record = arg(), arg(), arg()
    call('SET', P .. 'job:' .. id, record, 'PX', milliseconds)
    table.insert(finished, id)
    ended(id)
  end,
  -- forget the record: id
  x = function()
    local id = arg()
    table.insert(forgotten, P .. 'job:' .. id)
    ended(id)
  end,
  -- bury: id, queue, letter
  b = function()
    local id = arg()
    bury(id, arg(), arg())
    buried = true
    ended(id)
  end,
  -- let the progress last as long as the result: id, milliseconds
  p = function()
    call('PEXPIRE', P .. 'progress:' .. arg(), arg())
  end,
  -- wait again: id or empty, queue, priority, LPUSH or RPUSH, payload
  q = function()
    local id, queue, priority, command, payload = arg(), arg(), arg(), arg(), arg()
    push(queue, priority, command, { payload })
    requeue_record(id, queue, priority, payload, 0)
  end,
  -- wait again later: id or empty, queue, priority, seconds, payload
  d = function(now)
    local id, queue, priority, seconds, payload = arg(), arg(), arg(), number(), arg()
    delay(queue, priority, string.format('%.6f', tonumber(now) + seconds), payload)
    requeue_record(id, queue, priority, payload, seconds * 1000)
  end,
}

-- Carry out the operations of one settlement. Without any, the job is over and there was no record of it.
local function write(now, field)
  arg()
  local what = arg()
  if what == '' or what == 'l' then
    ended(field)
  end
  for operation in string.gmatch(what, '.') do
    operations[operation](now)
  end
end

-- What is done once for all settlements of a call; returns how many letters were removed to make room.
local function flush_settled(cap)
  if #forgotten > 0 then
    call('DEL', unpack(forgotten))
  end
  if #finished > 0 then
    call('LPUSH', P .. 'finished', unpack(finished))
    call('LTRIM', P .. 'finished', 0, RESULTS_LISTED - 1)
  end
  return buried and evict(cap, 1000) or 0
end
