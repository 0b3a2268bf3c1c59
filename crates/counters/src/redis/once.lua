-- once.lua, version 1: remembers requests that are to be carried out once, and what was answered to them.
--
-- What crates/counters/src/shared/slot/once.rs does in Rust; tests/script/once.rs holds the two together.
--
-- KEYS   the slot's sentinel; the keys of the org; their ages
-- ARGV   1: the owner of the connection, as the sentinel has it
--        2: doubles, little-endian: not_after, when what the slot knows began and the time it showed as the caller last
--           heard, the act, for how long it is claimed or its answer told, for how long keys are remembered, and how many
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

local call, pack, read = redis.call, struct.pack, struct.unpack
local owner, args, key, by, print = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local not_after, heard_began, heard, act, lasts, kept, most = read('<ddddddd', args)
local CLAIM, KEEP, FORGET = 1, 2, 3
local LATE, LOST, DONE, ANSWERED, OTHER, BUSY = 0, 1, 2, 3, 4, 5
local SWEPT, IDLE = 8, 7200

local time = call('TIME') -- the clock
local now = time[1] * 1000000 + time[2]
local sentinel, began, highest = call('GET', KEYS[1]), 0, 0
if sentinel then
  began, highest = read('<dd', sentinel)
end
local back = highest > now + 10000000
if highest > now and not back then
  now = highest
end
local function reply(what, ...)
  return {what, pack('<dd', now, began), ...}
end
if now > not_after then
  return reply(LATE)
end
-- What begins a new generation for call.lua is left to call.lua to note.
if back or not sentinel or sentinel:sub(17) ~= owner or began < heard_began
  or (began == heard_began and highest + 10000 <= heard) then
  return reply(LOST)
end
if now >= highest + 10000 then
  call('SET', KEYS[1], pack('<dd', began, now) .. owner, 'EX', '34560000')
end

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
