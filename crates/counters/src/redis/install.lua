-- install.lua, version 1: marks slots as never having held anything, so that their counters are not cold.
--
-- Only for a store that is used for the first time, before any call. A slot that has a sentinel keeps it.
--
-- KEYS   sentinels; in a Cluster those of one slot
-- ARGV   1: the owner of the connection
-- Reply  how many were written

local written = 0
for _, sentinel in ipairs(KEYS) do
  local value = struct.pack('<dd', 0, 0) .. ARGV[1]
  if redis.call('SET', sentinel, value, 'NX', 'EX', '34560000') then
    written = written + 1
  end
end
return written
