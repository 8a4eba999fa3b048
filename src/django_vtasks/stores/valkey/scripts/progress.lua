-- Record what a running job says of itself, if its claim still stands.
--
-- ARGV: now, owner, field, nonce and newline, id, seconds to keep it, progress or empty, metadata or empty.
-- Returns: 1, or 0 when the claim is gone.
--
-- include: leases
local now, owner, field, nonce, id, seconds = clock(), arg(), arg(), arg(), arg(), arg()
local progress, metadata = arg(), arg()
if not is_claim(call('HGET', P .. 'inflight:' .. owner, field), nonce) then
  return 0
end
local key = P .. 'progress:' .. id
if progress ~= '' then
  call('HSET', key, 'progress', progress, 'at', now)
end
if metadata ~= '' then
  call('HSET', key, 'metadata', metadata)
end
call('EXPIRE', key, seconds)
return 1
