-- once.lua, version 1: remembers requests that are to be carried out once, and what was answered to them.
--
-- What crates/counters/src/shared/slot/once.rs does in Rust; tests/script/once.rs holds the two together.
--
-- It begins with slot.lua.
--
-- KEYS   the slot's sentinel; the keys of the org; their ages
-- ARGV   1 and 2: as in slot.lua; then of 2 the act, for how long it is claimed or its answer told, for how long keys are
--           remembered, and how many
--        3: which key, 4: who asks, 5: which request it is for, in 16, 16 and 32 bytes
--        6: what was answered (keep)
-- Reply  what came of it; now and began, doubles; of what was answered, for how long it is told yet, a double, and the answer
--
-- The keys are a hash. A value has until when it counts and whether it was answered (doubles), who asked, for which request,
-- and the answer. It counts in whatever generation: what was answered once was answered. Ages are a sorted set, by when each
-- was claimed; the oldest make way. Both go when nothing was written for two hours, which is longer than any of them counts.
--
-- Keeps: while a key is claimed or answered, nobody else is told to carry a request out with it; an org has so many keys and
-- no more; nothing is written without an expiry.

local key, by, print = ARGV[3], ARGV[4], ARGV[5]
local act, lasts, kept, most = read('<dddd', args, at)
local CLAIM, KEEP, FORGET = 1, 2, 3
local DONE, ANSWERED, OTHER, BUSY = 2, 3, 4, 5
local SWEPT, IDLE = 8, 7200

local keys, ages = KEYS[2], KEYS[3]
local value, till, answered = call('HGET', keys, key), 0, 0
if value then
  till, answered = read('<dd', value)
end
local known = value and now < till
if known then
  if act == CLAIM and value:sub(33, 64) ~= print then
    return reply(OTHER)
  end
  if act == CLAIM and answered == 1 then
    return reply(ANSWERED, pack('<d', till - now), value:sub(65))
  end
  if value:sub(17, 32) ~= by then
    return reply(BUSY)
  end
end

local function drop(those)
  if #those > 0 then
    call('HDEL', keys, unpack(those))
    call('ZREM', ages, unpack(those))
  end
end
if act == FORGET then
  if known and answered == 0 then
    drop({key})
  end
  return reply(DONE)
end
call('HSET', keys, key, pack('<dd', now + lasts, act == KEEP and 1 or 0) .. by .. print .. ARGV[6])
if not known then
  call('ZADD', ages, now, key)
  drop(call('ZRANGEBYSCORE', ages, '-inf', now - kept, 'LIMIT', 0, SWEPT))
  local over = math.min(call('ZCARD', ages) - most, SWEPT)
  if over > 0 then
    drop(call('ZRANGE', ages, 0, over - 1))
  end
end
call('EXPIRE', keys, IDLE)
call('EXPIRE', ages, IDLE)
return reply(DONE)
