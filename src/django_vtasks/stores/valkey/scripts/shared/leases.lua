-- In-flight jobs: inflight:<owner> maps a field to <nonce> newline <start> newline <queue> newline <payload>. The field
-- is the job's id where the payload ends in it, so that a job is found by its id without a further index. A lease token
-- is the nonce of the claim and the field; only who knows the nonce can settle.
local function field_of(payload)
  if string.sub(payload, 1, 5) == 'zstd:' then
    return 'z' .. #payload .. redis.sha1hex(string.sub(payload, -256))
  end
  return string.match(string.sub(payload, -72), '"id":"([%w_-]+)"}$')
end

local function lives(owner, now)
  local expiry = call('ZSCORE', P .. 'leases', owner)
  return expiry and tonumber(expiry) > tonumber(now)
end

local function is_claim(value, nonce)
  return value and string.sub(value, 1, #nonce + 1) == nonce .. '\n'
end

-- The owner, field and value of the claim on a job, or nil. The payload is nil when no record tells it.
local function find_claim(id, payload)
  local field = payload and field_of(payload) or id
  for _, owner in ipairs(call('ZRANGE', P .. 'leases', 0, -1)) do
    local value = call('HGET', P .. 'inflight:' .. owner, field)
    if value and (not payload or string.sub(value, -#payload) == payload) then
      return owner, field, value
    end
  end
end

local function forget_worker(owner)
  call('ZREM', P .. 'leases', owner)
  call('HDEL', P .. 'workers', owner)
end
