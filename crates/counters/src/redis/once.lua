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
-- The keys are a hash. A value has until when it counts and what is known of the key (doubles), who asked, for which request,
-- and the answer. A key whose request was taken back is free, and known to be: another may claim it, and hears so. It
-- counts in whatever generation: what was answered once was answered. Ages are a sorted set, by when each was claimed; the
-- oldest make way. Both go when nothing was written for two hours, which is longer than any of them counts.
--
-- Keeps: while a key is claimed or answered and not free again, nobody else is told to carry a request out with it; an
-- org has so many keys and no more; nothing is written without an expiry.

local key, by, print = ARGV[3], ARGV[4], ARGV[5]
local act, lasts, kept, most = read('<dddd', args, at)
local CLAIM, KEEP, FORGET, FREE = 1, 2, 3, 4
local DONE, ANSWERED, OTHER, BUSY, FREED, ANSWERED_ANEW = 2, 3, 4, 5, 6, 7
local IS_CLAIMED, IS_ANSWERED, IS_FREE, IS_CLAIMED_ANEW, IS_ANSWERED_ANEW = 0, 1, 2, 3, 4
local SWEPT, IDLE = 8, 7200

local keys, ages = KEYS[2], KEYS[3]
local value, till, state = call('HGET', keys, key), 0, IS_CLAIMED
if value then
  till, state = read('<dd', value)
end
local known = value and now < till
local free = known and state == IS_FREE
local anew = known and state == IS_CLAIMED_ANEW
local answered_anew = known and state == IS_ANSWERED_ANEW
if act == FREE then
  if known and (anew or state == IS_CLAIMED) then
    return reply(BUSY)
  end
elseif known and not (free and act == CLAIM) then
  if act == CLAIM and value:sub(33, 64) ~= print then
    return reply(OTHER)
  end
  if act == CLAIM and (answered_anew or state == IS_ANSWERED) then
    return reply(answered_anew and ANSWERED_ANEW or ANSWERED, pack('<d', till - now), value:sub(65))
  end
  if free or value:sub(17, 32) ~= by then
    return reply(BUSY)
  end
end

local function drop(those)
  if #those > 0 then
    call('HDEL', keys, unpack(those))
    call('ZREM', ages, unpack(those))
  end
end
if act == FORGET and not anew then
  if known and state == IS_CLAIMED then
    drop({key})
  end
  return reply(DONE)
end
local becomes = IS_CLAIMED
if act == KEEP then
  becomes = (anew or answered_anew) and IS_ANSWERED_ANEW or IS_ANSWERED
elseif act == FREE or act == FORGET then
  becomes, lasts = IS_FREE, kept
elseif free or anew then
  becomes = IS_CLAIMED_ANEW
end
call('HSET', keys, key, pack('<dd', now + lasts, becomes) .. by .. print .. ARGV[6])
if not known or (free and act == CLAIM) then
  call('ZADD', ages, now, key)
  drop(call('ZRANGEBYSCORE', ages, '-inf', now - kept, 'LIMIT', 0, SWEPT))
  local over = math.min(call('ZCARD', ages) - most, SWEPT)
  if over > 0 then
    drop(call('ZRANGE', ages, 0, over - 1))
  end
end
call('EXPIRE', keys, IDLE)
call('EXPIRE', ages, IDLE)
return reply(becomes == IS_CLAIMED_ANEW and FREED or DONE)
