-- beat.lua, version 2: a node says that it is alive, and hears who else is.
--
-- KEYS   1: the fleet's nodes, a hash of "seen info" by node; 2: the mark of a store that is in use
-- ARGV   1: the node; 2: what it says of itself, or empty if it leaves; 3: 1 if the mark is to be made
-- Reply  the time in microseconds; 1 if the mark was there, else 0; the mark, which is another one after a loss, or
--        empty; then each node and its "seen info"

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local mark = redis.call('GET', KEYS[2])
local marked = mark and 1 or 0
if ARGV[3] == '1' then
  mark = mark or string.format('%.0f', now)
  redis.call('SET', KEYS[2], mark, 'EX', '34560000')
end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
  redis.call('EXPIRE', KEYS[1], '600')
end
local reply = { string.format('%.0f', now), marked, mark or '' }
local nodes = redis.call('HGETALL', KEYS[1])
for place = 1, #nodes, 2 do
  local seen = tonumber(string.match(nodes[place + 1], '^%d+'))
  if now - seen > 600000000 then
    redis.call('HDEL', KEYS[1], nodes[place])
  else
    reply[#reply + 1] = nodes[place]
    reply[#reply + 1] = nodes[place + 1]
  end
end
return reply
