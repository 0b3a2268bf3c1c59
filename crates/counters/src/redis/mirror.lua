-- mirror.lua, version 1: a node looks at what the fleet keeps for nodes to come, and becomes its writer if there is none.
--
-- KEYS   1: the index; 2: the writer
-- ARGV   1: the node; 2: for how many seconds it is the writer
-- Reply  1 if this node is the writer, else 0; the index, or nothing

local writer = redis.call('GET', KEYS[2])
if not writer or writer == ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
  writer = ARGV[1]
end
return { writer == ARGV[1] and 1 or 0, redis.call('GET', KEYS[1]) }
