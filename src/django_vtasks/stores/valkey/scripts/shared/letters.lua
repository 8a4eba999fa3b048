-- Dead letters: q:failed has the payloads (newest at the left), letters maps the id to the payload and letter_ids the
-- payload's hash to the id, so that one is found by its id and an evicted one leaves nothing behind. The progress of a
-- dead job stays as long as its letter.
local function forget_letter(letter)
  local digest = redis.sha1hex(letter)
  local id = call('HGET', P .. 'letter_ids', digest)
  if id then
    call('HDEL', P .. 'letter_ids', digest)
    call('HDEL', P .. 'letters', id)
    call('EXPIRE', P .. 'progress:' .. id, 604800)
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

local function bury(id, letter)
  call('LPUSH', P .. 'q:failed', letter)
  call('HSET', P .. 'letters', id, letter)
  call('HSET', P .. 'letter_ids', redis.sha1hex(letter), id)
  call('PERSIST', P .. 'progress:' .. id)
end

-- Take a letter out; false when it is not there.
local function unearth(letter)
  if call('LREM', P .. 'q:failed', -1, letter) == 0 then
    return false
  end
  forget_letter(letter)
  return true
end

local function has_letter(letter)
  return call('HEXISTS', P .. 'letter_ids', redis.sha1hex(letter)) == 1 or call('LPOS', P .. 'q:failed', letter)
end
