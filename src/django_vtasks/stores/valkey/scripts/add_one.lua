-- Add one job of priority 0 that is neither delayed nor unique nor limited: what add.lua does, for few commands.
--
-- ARGV: now, caller, call number, `1` to name the queue to the store (else empty), queue, payload; id when it has a
--       record.
-- Returns: empty text.
local caller, turn, named, queue, payload, id = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if call('SET', P .. 'caller:' .. caller, turn, 'EX', 120, 'GET') == turn then
  return ''
end
if named ~= '' then
  call('SADD', P .. 'queues', queue)
end
if id then
  local record = 'w' .. queue .. '\n0\n' .. payload
  if call('HEXISTS', P .. 'letters', id) == 1
    or not call('SET', P .. 'job:' .. id, record, 'PX', '604800000', 'NX') then
    return ''
  end
end
local length = redis.pcall('LPUSH', P .. 'q:' .. queue, payload)
if type(length) == 'table' then
  -- Something else is under this name: what was written of the job goes too.
  if id then
    call('DEL', P .. 'job:' .. id)
  end
  return length
end
if length == 1 and call('EXISTS', P .. 'wake:' .. queue) == 0 then
  -- The queue was empty: somebody may wait for it.
  call('RPUSH', P .. 'wake:' .. queue, '1')
end
return ''
