-- Let jobs in. ARGV: number of groups; of each its kinds, `1` to name the queue to the store (else empty), queue,
-- priority, number of jobs, and of each job its payload and what the kinds say: `t` (tracked: it has a record) its id;
-- `d` (delayed) the epoch it is due; `l` (limited) nothing; `u` (unique) its position, its key, the window in milliseconds or empty, and `b`
-- when it debounces. Returns text, a line "<position> <status> <holder>" for each job that was not added. A group that
-- the server refuses is an error; with `goes_on` it is the line "<number of the group> refused <error>" instead.
local function admit_all(now, goes_on)
  local answer, letters = '', nil
  -- The keys written for the jobs of a group beside the queue.
  local made = {}
  -- Where the arguments of the group under way begin, how many jobs it has and of what kinds.
  local start, members, shape

  -- Whether a job is known: by its record, or as a dead letter.
  local function is_known(id)
    return call('EXISTS', P .. 'job:' .. id) == 1 or call('HEXISTS', P .. 'letters', id) == 1
  end

  -- Jobs that are delayed or unique, one by one; returns the payloads of those that are ready.
  local function examine(kinds, queue, priority, count)
    -- include: places, records, unique
    local tracked, delayed = string.find(kinds, 't', 1, true), string.find(kinds, 'd', 1, true)
    local unique = string.find(kinds, 'u', 1, true)
    if string.find(kinds, 'l', 1, true) then
      call('SET', P .. 'limited', '1')
      call('ZADD', P .. 'agenda', 0, 'limited')
    end
    local payloads = {}

    local function is_refused(id)
      local place, key, window, mode = arg(), arg(), arg(), arg()
      if is_known(id) then
        return true
      end
      local holder = lock(key, id, window, now)
      made[#made + 1] = not holder and P .. 'unique:' .. key or nil
      if holder then
        answer = answer .. place .. (mode == 'b' and ' held ' or ' duplicate ') .. holder .. '\n'
      end
      return holder
    end

    for _ = 1, count do
      local payload, id, due = arg(), tracked and arg(), delayed and arg()
      local ahead = due and math.max(0, tonumber(due) - tonumber(now)) or 0
      local refused
      if unique then
        refused = is_refused(id)
      else
        refused = id and is_known(id)
      end
      if not refused then
        if id then
          made[#made + 1] = P .. 'job:' .. id
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

  local function push_by_priority(queue, priority, payloads)
    -- include: push
    push(queue, priority, 'LPUSH', payloads)
  end

  local function admit_group()
    local kinds, named, queue, priority, count = arg(), arg(), arg(), arg(), number()
    start, members, shape = position, count, kinds
    if named ~= '' then
      call('SADD', P .. 'queues', queue)
    end
    local payloads, last = {}, 0
    if kinds == '' then
      payloads, last = { unpack(ARGV, position + 1, position + count) }, count
      position = position + count
    elseif kinds == 't' then
      local head = 'w' .. queue .. '\n' .. priority .. '\n'
      letters = letters or call('EXISTS', P .. 'letters')
      for i = position + 1, position + 2 * count, 2 do
        local payload, id = ARGV[i], ARGV[i + 1]
        local is_letter = letters == 1 and call('HEXISTS', P .. 'letters', id) == 1
        local record = P .. 'job:' .. id
        if not is_letter and call('SET', record, head .. payload, 'PX', '604800000', 'NX') then
          last = last + 1
          payloads[last], made[last] = payload, record
        end
      end
      position = position + 2 * count
    else
      payloads = examine(kinds, queue, priority, count)
      last = #payloads
    end
    if last > 0 and priority ~= '0' then
      push_by_priority(queue, priority, payloads)
    elseif last > 0 and call('LPUSH', P .. 'q:' .. queue, unpack(payloads)) == last then
      -- The queue was empty: somebody may wait for it.
      if call('EXISTS', P .. 'wake:' .. queue) == 0 then
        call('RPUSH', P .. 'wake:' .. queue, '1')
      end
    end
  end

  local function skip_the_rest()
    local _, single = string.gsub(shape, '[td]', '')
    local _, unique = string.gsub(shape, 'u', '')
    position = start + members * (1 + single + 4 * unique)
  end

  for group = 1, number() do
    local done, problem = pcall(admit_group)
    if not done then
      -- Something else is under the name of the queue: what was written of its jobs goes too.
      if #made > 0 then
        call('DEL', unpack(made))
      end
      problem = type(problem) == 'table' and problem.err or tostring(problem)
      if not goes_on then
        error({ err = problem })
      end
      answer = answer .. group .. ' refused ' .. string.gsub(problem, '%c', ' ') .. '\n'
      skip_the_rest()
    end
    made = {}
  end
  return answer
end
