-- Note under the ids of calls which jobs stand for them: they were duplicates, which came out after they had an id.
--
-- ARGV: now, number of calls; of each: its id, the id of the job.
--
-- include: records
for _ = 1, number() do
  local id, holder = arg(), arg()
  call('SET', P .. 'job:' .. id, 'd' .. holder, 'PX', string.format('%.0f', WAITING), 'NX')
end
return ''
