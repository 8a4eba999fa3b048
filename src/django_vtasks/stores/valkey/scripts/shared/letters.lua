-- Dead letters: q:failed has the payloads (newest at the left), letters maps the id to the payload, letter_ids the
-- payload's hash to id newline queue, and letter_queues counts them, so that one is found by its id, an evicted one
-- leaves nothing behind, and nobody has to read them all to count them. What a 3.2 worker buried is in q:failed only.
-- The progress of a dead job stays as long as its letter.
local function forget_letter(letter)
  local digest = redis.sha1hex(letter)
  local id, queue = string.match(call('HGET', P .. 'letter_ids', digest) or '', '^([^\n]*)\n(.*)$')
  if id then
    call('HDEL', P .. 'letter_ids', digest)
    call('HDEL', P .. 'letters', id)
    call('EXPIRE', P .. 'progress:' .. id, 604800)
    if call('HINCRBY', P .. 'letter_queues', queue, -1) <= 0 then
      call('HDEL', P .. 'letter_queues', queue)
    end
  end
end

-- Remove up to `limit` letters beyond the cap, oldest first; returns how many.
local function evict(cap, limit)
  local surplus = math.min(call('LLEN', P .. 'q:failed') - cap, limit)
  for _ = 1, surplus do
    forget_letter(call('RPOP', P .. 'q:failed'))
  end
  return math.max(0, surplus)
end

local function bury(id, queue, letter)
  call('LPUSH', P .. 'q:failed', letter)
  call('HSET', P .. 'letters', id, letter)
  call('HSET', P .. 'letter_ids', redis.sha1hex(letter), id .. '\n' .. queue)
  call('HINCRBY', P .. 'letter_queues', queue, 1)
  call('PERSIST', P .. 'progress:' .. id)
end

-- Take letters out, looking from the newest; returns how many were there. A few are cheap to look for one by one; many
-- are marked in one walk and removed together.
local function unearth(letters)
  local taken, wanted, left = 0, {}, 0
  for _, letter in ipairs(letters) do
    if not wanted[letter] then
      wanted[letter], left = true, left + 1
    end
  end
  local start = 0
  while left > 0 do
    local piece = call('LRANGE', P .. 'q:failed', start, start + 199)
    for i, letter in ipairs(piece) do
      if wanted[letter] then
        call('LSET', P .. 'q:failed', start + i - 1, 'vtasks:removed')
        forget_letter(letter)
        wanted[letter] = nil
        taken, left = taken + 1, left - 1
      end
    end
    if #piece == 0 then
      break
    end
    start = start + 200
  end
  if taken > 0 then
    call('LREM', P .. 'q:failed', taken, 'vtasks:removed')
  end
  return taken
end

local function has_letter(letter)
  return call('HEXISTS', P .. 'letter_ids', redis.sha1hex(letter)) == 1 or call('LPOS', P .. 'q:failed', letter)
end
