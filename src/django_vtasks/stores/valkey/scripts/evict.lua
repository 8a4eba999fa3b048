-- Keep to the dead-letter cap.
--
-- ARGV: now, cap, limit.
-- Returns: how many letters were removed.
--
-- include: letters
return evict(number(), number())
