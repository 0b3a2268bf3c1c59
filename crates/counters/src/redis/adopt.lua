-- adopt.lua, version 1: hands slots to the server that has them now, with all they hold.
--
-- Only for a migration that was planned: what the old owner had, the new one has. The generation stays, so that no
-- counter is cold. A sentinel that is missing, or of someone else than expected, stays as it is.
--
-- KEYS   sentinels; in a Cluster those of one slot
-- ARGV   1: the owner that is expected; 2: the owner of the connection
-- Reply  how many were handed over

local adopted = 0
for _, sentinel in ipairs(KEYS) do
  local value = redis.call('GET', sentinel)
  if value and value:sub(17) == ARGV[1] then
    redis.call('SET', sentinel, value:sub(1, 16) .. ARGV[2], 'EX', '34560000')
    adopted = adopted + 1
  end
end
return adopted
