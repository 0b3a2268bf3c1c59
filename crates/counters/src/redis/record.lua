-- record.lua, version 1: keeps the record of a charge that may be given back, and gives it back once.
--
-- What crates/counters/src/shared/slot/record.rs does in Rust; tests/script/records.rs holds the two together. Counters
-- are strings as call.lua has them.
--
-- KEYS   the slot's sentinel; the record; the list of the org's records; the counters that something is given back to; for each that is a log, in their
--        order, its entries
-- ARGV   1 and 2: as in slot.lua, with which it begins; then of 2 the act, and
--             open:    the generation that was charged, 2^53 - 1 if none was; when it expires
--             claim:   for how long nobody else may settle it
--             settle:  for how long it is remembered, counters; each: kind, window, where the charge lies, amount
--        3: what is recorded (open), or who claims, releases or settles it
--        4: as what it is listed, if it is (open), or what is answered to whoever settles it again (settle)
-- Reply  what came of it; now and began, doubles; perhaps a text or two, or what each counter took back, doubles
--
-- A record is a hash: of which generation it is and until when it is open (doubles), what was recorded, and the hash of that,
-- so that to open it again changes nothing; who has claimed it
-- and until when; what was answered once it is settled; as what it is listed. The list has those that are open, by when they
-- expire. A record is void in another generation, since nobody knows then
-- whether it was settled.
--
-- Keeps: something is given back only by whoever settles a record that is open, to the window that was charged, and no
-- more than it has; nothing is written without an expiry.

local text, act = ARGV[3], nil
act, at = read('<d', args, at)
local OPEN, CLAIM, RELEASE = 1, 2, 3
local DONE, UNKNOWN, SETTLED, EXPIRED, BUSY = 2, 3, 4, 5, 6
local SLIDING, LOG, GRACE, WRAP, SEARCHED = 6, 7, 60000000, 9007199254740992, 1000
local WHICHEVER = WRAP - 1

local record, list = KEYS[2], KEYS[3]
if act == OPEN then
  local charged, till = read('<dd', args, at)
  if charged ~= began and charged ~= WHICHEVER then
    return reply(LOST)
  end
  local opened = redis.sha1hex(text)
  if call('HGET', record, 'opened') == opened then
    return reply(DONE)
  end
  call('DEL', record)
  call(
    'HSET', record, 'began', pack('<d', began), 'until', pack('<d', till), 'text', text, 'opened', opened,
    'listed', ARGV[4]
  )
  call('PEXPIREAT', record, math.ceil((till + GRACE) / 1000))
  if ARGV[4] ~= '' then
    call('ZREMRANGEBYSCORE', list, '-inf', now)
    call('ZADD', list, till, ARGV[4])
    -- None is open for longer than an hour.
    call('EXPIRE', list, 7200)
  end
  return reply(DONE)
end

local of, till, by, claimed, answer, what =
  unpack(call('HMGET', record, 'began', 'until', 'by', 'claimed', 'answer', 'text'))
if not of or read('<d', of) ~= began then
  return reply(UNKNOWN)
end
if answer then
  return reply(SETTLED, by, answer)
end
local own = by == text
if act == CLAIM then
  if now >= read('<d', till) then
    return reply(EXPIRED)
  end
  if not own and claimed and now < read('<d', claimed) then
    return reply(BUSY)
  end
  call('HSET', record, 'by', text, 'claimed', pack('<d', now + read('<d', args, at)))
  return reply(DONE, what)
end
if not own then
  return reply(BUSY)
end
if act == RELEASE then
  call('HDEL', record, 'by', 'claimed')
  return reply(DONE)
end

-- Lowers the entry of an instant in a log, if it is among the latest. Totals are of all that came before, so that those
-- behind it are lowered, too.
local function lower(entries, total, newest, base, older, lies, amount)
  local latest = older > 0 and call('LRANGE', entries, -SEARCHED, -1) or {}
  local place, before, its = #latest + 1, base, total
  if lies ~= newest then
    for from = #latest, 1, -1 do
      local at
      at, its = read('<dd', latest[from])
      if at == lies then
        place = from
        break
      end
    end
    if place > #latest then
      return 0
    end
  end
  if place > 1 then
    local _
    _, before = read('<dd', latest[place - 1])
  elseif older >= SEARCHED then
    return 0
  end
  local taken = math.min(amount, (its - before) % WRAP)
  for from = place, #latest do
    local at, sum = read('<dd', latest[from])
    call('LSET', entries, from - #latest - 1, pack('<dd', at, (sum - taken) % WRAP))
  end
  return taken
end

-- To settle it: each counter gets back what it still counts, in its place.
local kept, counters, backs = nil, nil, {}
kept, counters, at = read('<dd', args, at)
local entries = counters + 3
for place = 1, counters do
  local kind, window, lies, amount
  kind, window, lies, amount, at = read('<dddd', args, at)
  local key, taken = KEYS[place + 3], 0
  if kind == LOG then
    entries = entries + 1
  end
  local value = call('GET', key)
  if value then
    local generation, revision, limit, capacity, expires, a, b, c = read('<dddddddd', value)
    if generation == began and now < expires then
      if kind == SLIDING then
        if a == lies then
          taken = math.min(amount, c)
          c = c - taken
        elseif a == lies + window then
          taken = math.min(amount, b)
          b = b - taken
        end
      elseif kind == LOG then
        if now < lies + window then
          local _, older = read('<dd', value, 65)
          taken = lower(KEYS[entries], a, b, c, older, lies, amount)
          a = (a - taken) % WRAP
        end
      elseif a == lies and now < a then
        taken = math.min(amount, b)
        b = b - taken
      end
      if taken > 0 then
        local fresh = pack('<dddddddd', generation, revision, limit, capacity, expires, a, b, c)
        call('SET', key, fresh .. value:sub(65), 'KEEPTTL')
      end
    end
  end
  backs[place] = pack('<d', taken)
end
call('HSET', record, 'answer', ARGV[4])
call('ZREM', list, call('HGET', record, 'listed'))
call('HDEL', record, 'text', 'claimed', 'listed')
call('PEXPIRE', record, math.ceil(kept / 1000))
return reply(DONE, table.concat(backs))
