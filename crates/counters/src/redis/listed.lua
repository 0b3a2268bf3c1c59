-- listed.lua, version 1: what is listed of an org's records that are open.
--
-- KEYS   the list, as record.lua keeps it
local time = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. time[1] * 1000000 + time[2], '+inf')
