-- Enqueue a dead letter again: remove it and add its new job.
--
-- ARGV: now, letter, jobs (see admit.lua).
-- Returns: nil when the letter is not there, else text as add.lua does; with text the letter stays.
--
-- include: letters, admit
local now, letter = clock(), arg()
if not has_letter(letter) then
  return nil
end
local text = admit_all(now)
if text == '' then
  unearth(letter)
end
return text
