-- Let jobs in. ARGV: number of destinations, each; number of jobs, of each the position of its destination and its own
-- arguments. A destination is {kinds, queue, priority, payloads}; kinds says which arguments a job of it brings after
-- its payload: 't' (tracked: it has a record) the id, 'd' (delayed) the epoch it is due, 'u' (unique) the key, the
-- window in milliseconds or empty, and 'b' when it debounces. 'n' registers the queue's name.
local function read_destination()
  local kinds = arg()
  return {
    tracked = string.find(kinds, 't', 1, true),
    delayed = string.find(kinds, 'd', 1, true),
    unique = string.find(kinds, 'u', 1, true),
    new = string.find(kinds, 'n', 1, true),
    queue = arg(),
    priority = arg(),
    payloads = {},
  }
end

local function is_known(id)
  return call('EXISTS', P .. 'job:' .. id) == 1 or call('HEXISTS', P .. 'letters', id) == 1
end

local function place(destination, payload, due, now)
  if due and tonumber(due) > tonumber(now) then
    delay(destination.queue, destination.priority, due, payload)
  else
    destination.payloads[#destination.payloads + 1] = payload
  end
end

-- Read one job and place it; returns nil when it was added, else its status and the holder of its key.
local function admit(destination, now)
  local payload = arg()
  local id = destination.tracked and arg()
  local due = destination.delayed and arg()
  if destination.unique then
    local key, window, mode = arg(), arg(), arg()
    if is_known(id) then
      return nil
    end
    local holder = lock(key, id, window, now)
    if holder then
      return mode == 'b' and 'held' or 'duplicate', holder
    end
  elseif id and is_known(id) then
    return nil
  end
  if id then
    local ahead = due and (tonumber(due) - tonumber(now)) * 1000 or 0
    keep_waiting(id, destination.queue, destination.priority, payload, ahead)
  end
  place(destination, payload, due, now)
end

local function flush(destination)
  if #destination.payloads > 0 then
    push(destination.queue, destination.priority, 'LPUSH', destination.payloads)
    destination.payloads = {}
  end
  if destination.new then
    call('SADD', P .. 'queues', destination.queue)
  end
end

-- Returns text, a line "<position> <status> <holder>" for each job that was not added.
local function admit_all(now)
  local destinations, answer = {}, {}
  for i = 1, number() do
    destinations[i] = read_destination()
  end
  for i = 1, number() do
    local status, holder = admit(destinations[number()], now)
    if status then
      answer[#answer + 1] = (i - 1) .. ' ' .. status .. ' ' .. holder
    end
  end
  for _, destination in ipairs(destinations) do
    flush(destination)
  end
  return table.concat(answer, '\n')
end
