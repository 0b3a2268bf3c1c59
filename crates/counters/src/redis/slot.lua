-- slot.lua, version 1: how scripts begin that keep something in a slot beside its counters: record.lua and once.lua go on
-- from here.
--
-- KEYS   1: the slot's sentinel
-- ARGV   1: the owner of the connection, as the sentinel has it
--        2: doubles, little-endian: not_after, when what the slot knows began and the time it showed as the caller last
--           heard; the rest is the script's own
-- Reply  that it came too late, or that the slot has lost what the caller knew of it; now and began, doubles

local call, pack, read = redis.call, struct.pack, struct.unpack
local owner, args = ARGV[1], ARGV[2]
local not_after, heard_began, heard, at = read('<ddd', args)
local LATE, LOST = 0, 1

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
-- What begins a new generation for call.lua ends everything here; that is left to call.lua to note.
if back or not sentinel or sentinel:sub(17) ~= owner or began < heard_began
  or (began == heard_began and highest + 10000 <= heard) then
  return reply(LOST)
end
if now >= highest + 10000 then
  call('SET', KEYS[1], pack('<dd', began, now) .. owner, 'EX', '34560000')
end

