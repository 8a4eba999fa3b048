-- In-flight jobs: inflight:<owner> maps a field to <nonce> newline <start> newline <queue> newline <payload>. The field
-- is the job's id where the payload tells it, so that a job is found by its id without a further index. A lease token
-- is the nonce of the claim and the field; only who knows the nonce can settle.
-- include: fields
local function lives(owner, now)
  local expiry = call('ZSCORE', P .. 'leases', owner)
  return expiry and tonumber(expiry) > tonumber(now)
end

-- Whether the value of a claim begins with this nonce and a newline.
local function is_claim(value, nonce)
  return value and string.find(value, nonce, 1, true) == 1
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
