-- Let jobs in. ARGV: number of groups; of each its kinds, queue, priority, number of jobs, and of each job its payload
-- and what the kinds say: `t` (tracked: it has a record) its id; `d` (delayed) the epoch it is due; `u` (unique) its
-- position, its key, the window in milliseconds or empty, and `b` when it debounces. `n` names the queue to the store.
-- include: push
local WAITING = '604800000'

local function admit_all(now)
  local answer = {}

  -- A job is known by its record, or as a dead letter.
  local letters = nil
  local function is_letter(id)
    if letters == nil then
      letters = call('EXISTS', P .. 'letters') == 1
    end
    return letters and call('HEXISTS', P .. 'letters', id) == 1
  end

  -- Jobs of which no more is asked than a record; returns the payloads of those that are new.
  local function track(queue, priority, count)
    local head, payloads, last = 'w' .. queue .. '\n' .. priority .. '\n', {}, 0
    for i = position + 1, position + 2 * count, 2 do
      local id = ARGV[i + 1]
      if not is_letter(id) and call('SET', P .. 'job:' .. id, head .. ARGV[i], 'PX', WAITING, 'NX') then
        last = last + 1
        payloads[last] = ARGV[i]
      end
    end
    position = position + 2 * count
    return payloads
  end

  -- All others, one by one.
  local function examine(kinds, queue, priority, count)
    -- include: places, records, unique
    local tracked, delayed = string.find(kinds, 't', 1, true), string.find(kinds, 'd', 1, true)
    local unique = string.find(kinds, 'u', 1, true)
    local payloads = {}

    local function is_refused(id)
      local place, key, window, mode = arg(), arg(), arg(), arg()
      if call('EXISTS', P .. 'job:' .. id) == 1 or is_letter(id) then
        return true
      end
      local holder = lock(key, id, window, now)
      if holder then
        answer[#answer + 1] = place .. (mode == 'b' and ' held ' or ' duplicate ') .. holder
      end
      return holder
    end

    for _ = 1, count do
      local payload, id, due = arg(), tracked and arg(), delayed and arg()
      local ahead = due and math.max(0, tonumber(due) - tonumber(now)) or 0
      local refused
      if unique then
        refused = is_refused(id)
      elseif id then
        refused = call('EXISTS', P .. 'job:' .. id) == 1 or is_letter(id)
      end
      if not refused then
        if id then
          keep_waiting(id, queue, priority, payload, ahead * 1000)
        end
        if ahead > 0 then
          delay(queue, priority, due, payload)
        else
          payloads[#payloads + 1] = payload
        end
      end
    end
    return payloads
  end

  for _ = 1, number() do
    local kinds, queue, priority, count = arg(), arg(), arg(), number()
    local named = string.find(kinds, 'n', 1, true)
    if named then
      call('SADD', P .. 'queues', queue)
      kinds = string.gsub(kinds, 'n', '')
    end
    local payloads
    if kinds == '' then
      payloads = { unpack(ARGV, position + 1, position + count) }
      position = position + count
    elseif kinds == 't' then
      payloads = track(queue, priority, count)
    else
      payloads = examine(kinds, queue, priority, count)
    end
    if #payloads > 0 then
      push(queue, priority, 'LPUSH', payloads)
    end
  end
  return table.concat(answer, '\n')
end
