-- The field of a payload in inflight:<owner>: the job's id where the payload ends in it, else its length and the hash of
-- its end where it is compressed, else nil.
local function field_of(payload)
  if string.sub(payload, 1, 5) == 'zstd:' then
    return 'z' .. #payload .. redis.sha1hex(string.sub(payload, -256))
  end
  -- An id of 32 characters is looked for where it must begin.
  return string.match(payload, '^"id":"([%w_-]+)"}$', -40) or string.match(payload, '"id":"([%w_-]+)"}$', -72)
end
