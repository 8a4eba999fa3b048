-- Enqueue dead letters again: add each one's new job and remove it.
--
-- ARGV: now, number of letters; of each: letter, number of arguments that follow, jobs (see admit.lua).
-- Returns: of each letter `gone`, or text as add.lua does; with text the letter stays.
--
-- include: letters, admit
local now = clock()
local answers, taken, seen = {}, {}, {}
for i = 1, number() do
  local letter, after = arg(), number()
  after = position + after
  if seen[letter] or not has_letter(letter) then
    answers[i] = 'gone'
  else
    answers[i] = admit_all(now)
    if answers[i] == '' then
      seen[letter] = true
      taken[#taken + 1] = letter
    end
  end
  position = after
end
unearth(taken)
return answers
