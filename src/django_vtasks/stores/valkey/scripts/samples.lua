-- What all incarnations wrote about some spans of time.
--
-- ARGV: now, number of spans, the spans.
-- Returns: their samples.
local found = {}
for _ = 1, number() do
  for _, samples in ipairs(call('HVALS', P .. 'samples:' .. arg())) do
    found[#found + 1] = samples
  end
end
return found
