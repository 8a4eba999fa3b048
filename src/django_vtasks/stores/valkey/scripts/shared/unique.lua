-- unique:<key> has the id of the job that holds the key; for a window also newline and the epoch at which it ends. A
-- 3.2 producer writes "1".
local function holder_of(value)
  return value and (string.match(value, '^([^\n]*)\n') or value)
end

local function unlock(key, id, foreign_too)
  local name = P .. 'unique:' .. key
  local holder = holder_of(call('GET', name))
  if holder == id or (holder == '1' and foreign_too) then
    call('DEL', name)
  end
end

-- A window is over, or the holder vanished: a job with a key has a record for as long as it lives.
local function is_void(value, now)
  local ends = string.match(value, '\n(.*)$')
  if ends then
    return tonumber(ends) <= tonumber(now)
  end
  return value ~= '1' and call('EXISTS', P .. 'job:' .. value) == 0
end

-- Take a key for a job; returns the holder when somebody else has it. The window is in milliseconds, or empty.
local function lock(key, id, window, now)
  local name = P .. 'unique:' .. key
  local current = call('GET', name)
  if current and holder_of(current) ~= id and not is_void(current, now) then
    return holder_of(current)
  end
  if window == '' then
    call('SET', name, id)
  else
    local ends = string.format('%.6f', tonumber(now) + tonumber(window) / 1000)
    -- With a test clock the server's own expiry decides nothing.
    call('SET', name, id .. '\n' .. ends, 'PX', window + (ARGV[1] == '' and 0 or 3600000))
  end
end
