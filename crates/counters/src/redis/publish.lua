-- publish.lua, version 1: puts an index in place of an older one.
--
-- KEYS   1: the index
-- ARGV   1: the index, which begins with its revision; 2: seconds until it expires
-- Reply  1 if it was put in place; 0 if the one there is as new

local revision = function(index)
  return tonumber(string.match(index, '^%d+'))
end
local known = redis.call('GET', KEYS[1])
if known and revision(known) >= revision(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
