-- The server's time in epoch seconds.
--
-- ARGV: now.
-- Returns: text.
return clock()
