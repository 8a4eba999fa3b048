-- The record job:<id> of a waiting job is 'w' <queue> newline <priority> newline <payload>; of an ended one 'f' and a
-- packed object; of a duplicate 'd' and the id of the job that stands for it. A record whose job vanished (a 3.2 worker ran it) goes away by itself after WAITING milliseconds.
local WAITING = 7 * 24 * 3600 * 1000
local RESULTS_LISTED = 10000

local function waiting_record(queue, priority, payload)
  return 'w' .. queue .. '\n' .. priority .. '\n' .. payload
end

local function parse_waiting(record)
  return string.match(record, '^w([^\n]*)\n([^\n]*)\n(.*)$')
end

local function keep_waiting(id, queue, priority, payload, milliseconds)
  local record = waiting_record(queue, priority, payload)
  call('SET', P .. 'job:' .. id, record, 'PX', string.format('%.0f', WAITING + math.max(0, milliseconds)))
end
