-- The last recorded slot of a schedule entry.

-- Whether it is the expected one, which is empty for none. Unreadable text counts as none, as in the 3.2 line, and so
-- do "nan" and "inf", which tonumber would read.
local function last_slot_is(key, expected)
  local slot = tonumber(call('GET', key) or '')
  if slot and (slot ~= slot or slot == math.huge or slot == -math.huge) then
    slot = nil
  end
  return slot == tonumber(expected)
end
