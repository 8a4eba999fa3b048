-- What every script begins with.
--
-- KEYS[1] is a guard: a key that never exists, named like the prefix and one more character. In a slot that is being
-- moved between the nodes of a cluster a missing key makes the server refuse the whole script before it runs, so no
-- script is ever cut off half way. All other keys have the prefix, hence the same hash tag and the same slot.
-- ARGV[1] is the time in epoch seconds, or empty to use the server's own.
local P = string.sub(KEYS[1], 1, -2)
local call = redis.call
local position = 1

local function arg()
  position = position + 1
  return ARGV[position]
end

local function number()
  return tonumber(arg())
end

local function clock()
  if ARGV[1] ~= '' then
    return ARGV[1]
  end
  local time = call('TIME')
  return string.format('%d.%06d', time[1], time[2])
end

-- A full server (maxmemory) refuses writes that need memory, except in a script that has written before. What keeps
-- jobs moving begins with a write that needs none, since only then the server ever gets emptier.
local function insist()
  call('DEL', KEYS[1])
end
