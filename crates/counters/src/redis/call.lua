-- call.lua, version 2: runs one call of a node on a slot of the shared store.
--
-- Number for number what crates/counters/src/shared/slot does in Rust; tests/script/differential.rs holds the two
-- together. Change both, and the version if what is stored is read otherwise.
--
-- KEYS   the slot's sentinel; each subject's counter; for each subject that is a log, in their order, its entries
-- ARGV   1: the owner of the connection, as the sentinel has it
--        2: doubles, little-endian:
--             not_after, when what the slot knows began and the time it showed as the caller last heard (zeros if it
--             never did), plain, subjects, logs, settlements, formers, returns, needs, wants
--             each subject: kind, limit, capacity, window, revision, cost of a plain call or left of another; a
--                           quota's also start, end and next end
--             each settlement: subject, owed, drained, since, age, nodes (subjects are counted from 1)
--             each former:  subject, the one it replaces
--             each return:  subject, node, number, unspent, last_spent
--             each need:    1 to charge or 0 for a dry run, parts; each part: subject, limit, capacity, cost, mode
--             each want:    subject, amount, hold, node, number, most, needed (a soft limit has no most but 2^52)
--        A call is plain if it has one need, to be charged, with a part for each subject in their order, by its own
--        limit, enforced and at some cost, which then stands with the subject, and nothing else. Plain calls are not
--        about logs and sliding counters.
-- Reply  doubles: now, began; each part: fits, three numbers; each want: amount, hold, three numbers
--        or of a plain call that found nothing unusual: now, began; each counter as it is stored now
--        or of a call that came too late and did nothing: now, -1
--
-- A sentinel is began, highest and the owner. A counter is one string of doubles:
--        began, revision, limit, capacity, expires, three numbers
--        then its leases, 40 at most: node, number, amount, until
--        a bucket's are those that live; one that a request waited for, and has spent, has its end below 0; those that
--        can't come back any more are nobody's, node and number 0, eight at most; before them it may have the time that
--        it stood idle: -1, from when, how many tokens, until when, which is below 0
--        before its leases any counter may have notes of fallbacks: what it was charged of them, -2, since when, how much,
--        0; what it has taken over of that from a counter that it replaces, -3, which one, how much, until when to keep the
--        note, which is below 0
--        a log's three numbers are total, newest, base, and before the leases it has: oldest, older
-- A log's newest entry is (newest, total); older entries are a list of such pairs. A total is everything that was ever
-- entered, up to and with its entry, so that the difference of two is what lies between, and a place is found by
-- halving. What is held is total - base.
--
-- Keeps: all of a need is charged or nothing; what is lent is charged first; nothing is written unless it changed, and
-- nothing without an expiry.

local call, pack, read = redis.call, struct.pack, struct.unpack
local owner, args = ARGV[1], ARGV[2]
local not_after, heard_began, heard, plain, subjects, logs, settlements, formers, returns, needs, wants, at =
  read('<ddddddddddd', args)
local values = call('MGET', unpack(KEYS, 1, subjects + 1))

local WRAP, GRACE = 9007199254740992, 300000000 -- 2^53; five minutes
local LEAKY, FIRST, QUOTA, SLIDING, LOG = 2, 4, 5, 6, 7

-- The time never goes back by little; if it went far back, what was known is taken for lost.
local time = call('TIME') -- the clock
local now = time[1] * 1000000 + time[2]
local sentinel, began, highest = values[1], 0, 0
if sentinel then
  began, highest = read('<dd', sentinel)
end
local back = highest > now + 10000000
if highest > now and not back then
  now = highest
end
if now > not_after then
  return pack('<dd', now, -1)
end

-- A missing sentinel, another owner, a clock far back or one that has shown more already begin a new generation.
local lost = back or not sentinel or sentinel:sub(17) ~= owner or began < heard_began
  or (began == heard_began and highest + 10000 <= heard)
if lost then
  -- Later than every one before, even if the clock waits for what it once showed.
  began = (sentinel and not back and began >= now) and began + 1 or now
end
if lost or now >= highest + 10000 then
  call('SET', KEYS[1], pack('<dd', began, now) .. owner, 'EX', '34560000')
end

-- Most calls are plain, and most of those find counters of this generation, of the same revision, without leases, with
-- room and with time until they expire. They are done without a table for each; at anything else, what follows begins
-- anew.
if plain == 1 then
  local from, fresh = at, {pack('<dd', now, began), nil, nil, nil, nil}
  for place = 2, subjects + 1 do
    local kind, limit, capacity, window, revision, cost, value
    kind, limit, capacity, window, revision, cost, from = read('<dddddd', args, from)
    value = values[place]
    if kind == QUOTA then
      from = from + 24
    end
    if not value or #value ~= 64 then
      break
    end
    local of, known_revision, _, _, expires, a, b, c = read('<dddddddd', value)
    if of ~= began or known_revision ~= revision or now >= expires or cost > capacity or limit == 0 then
      break
    end
    local matters = a
    if kind <= LEAKY then
      if b >= capacity then
        b, c = capacity, 0
      end
      if a < now then
        local units = limit * (now - a)
        a = now
        if units >= 2 * (b + 1) * window then
          b, c = 0, 0
        elseif units < WRAP then
          local rest = units % window
          b, c = b - (units - rest) / window, c - rest
          if c < 0 then
            b, c = b - 1, c + window
          end
          if b < 0 then
            b, c = 0, 0
          end
        else
          break
        end
      end
      if b + cost + (c > 0 and 1 or 0) > capacity then
        break
      end
      b = b + cost
      matters = (b + 1) * window
      if matters >= WRAP then
        break
      end
      matters = a + (matters - matters % limit) / limit
    else
      if now >= a or b + cost > limit then
        break
      end
      b = b + cost
    end
    if matters + GRACE > expires then
      break
    end
    fresh[place] = pack('<dddddddd', began, revision, limit, capacity, expires, a, b, c)
  end
  if fresh[subjects + 1] then
    for place = 2, subjects + 1 do
      call('SET', KEYS[place], fresh[place], 'KEEPTTL')
    end
    return table.concat(fresh)
  end
end

local MOST, LONGEST_HOLD, IDLE_KEPT, ENFORCE, SOFT = 4503599627370496, 1000000, 10000000, 0, 2 -- MOST is 2^52

-- The places of a counter's fields. Those from OLDEST on are a log's.
local KIND, LIMIT, CAPACITY, WINDOW, REVISION, ASKED_LIMIT, ASKED_CAPACITY = 1, 2, 3, 4, 5, 6, 7
local EXPIRES, A, B, C, REST, CHANGED, PAID = 8, 9, 10, 11, 12, 13, 14
local LEASED, NEEDED, IDLE, IDLE_NOW = 15, 16, 17, 18 -- a bucket's
local REPORTED, TAKEN_OVER = 21, 22 -- of few
local TOTAL, NEWEST, BASE, OLDEST, OLDER, DROPPED, PUSHED, LIST, LENT = 9, 10, 11, 15, 16, 17, 18, 19, 20
local floor = math.floor

-- The exact a * b / d and its rest, for d below 2^51; a quotient beyond 2^53 is 2^53.
local function muldiv(a, b, d)
  local product = a * b
  if product < WRAP then
    local rest = product % d
    return (product - rest) / d, rest
  end
  if a > b then
    a, b = b, a
  end
  local whole = floor(b / d)
  local part = b - whole * d
  local quotient, rest = 0, 0
  local _, bits = math.frexp(a)
  local bit = 2 ^ (bits - 1)
  while bit >= 1 do
    quotient, rest = quotient + quotient, rest + rest
    if a >= bit then
      a, quotient, rest = a - bit, quotient + whole, rest + part
    end
    while rest >= d do
      quotient, rest = quotient + 1, rest - d
    end
    if quotient > WRAP then
      quotient = WRAP
    end
    bit = bit / 2
  end
  return quotient, rest
end

-- What a bucket owes at an instant, in whole tokens and parts of 1 / window: never less than it has on lease.
local function drained(at, tokens, parts, limit, window, leased, to)
  if at < to then
    local time = to - at
    local units, whole, rest = limit * time
    at = to
    if units >= 2 * (tokens + 1) * window then
      tokens, parts = 0, 0
    else
      if units < WRAP then
        rest = units % window
        whole = (units - rest) / window
      else
        whole, rest = muldiv(limit, time, window)
      end
      tokens, parts = tokens - whole, parts - rest
      if parts < 0 then
        tokens, parts = tokens - 1, parts + window
      end
    end
  end
  if tokens < leased or tokens < 0 then
    return at, leased, 0
  end
  return at, tokens, parts
end

-- What a sliding counter has used, rounded up.
local function faded(counter)
  local ahead, window = counter[A] - now, counter[WINDOW]
  if ahead > window then
    ahead = window
  end
  local whole, rest = muldiv(counter[B], ahead, window)
  return counter[C] + whole + (rest > 0 and 1 or 0)
end

-- Leases out of a counter's string, or none.
local function leases(counter)
  local packed = counter[REST]
  if type(packed) ~= 'string' then
    return packed or {}
  end
  local all = {}
  for place = 1, #packed, 32 do
    all[#all + 1] = {read('<dddd', packed, place)}
  end
  return all
end

-- What lives of leases, and until when.
local function on_lease(all)
  local sum, till = 0, 0
  for _, lease in ipairs(all) do
    if lease[4] > now then
      sum, till = math.min(sum + lease[3], MOST), math.max(till, lease[4])
    end
  end
  return sum, till
end

-- Adds up what a bucket has on lease, and what requests have of it while they wait for another slot.
local function sum_up(counter, all)
  local leased, needed = 0, 0
  for _, lease in ipairs(all) do
    if lease[4] > 0 then
      leased = math.min(leased + lease[3], MOST)
    else
      needed = math.min(needed + lease[3], MOST)
    end
  end
  counter[LEASED], counter[NEEDED] = leased, needed
end

-- A lease that can't come back any more still holds its bucket down, unless a request waited for it.
local function hold_down(all, amount, till)
  if till < 0 then
    return
  end
  local gone, last = 0
  for _, lease in ipairs(all) do
    if lease[2] == 0 then
      gone, last = gone + 1, lease
    end
  end
  if gone >= 8 then
    last[3], last[4] = math.min(last[3] + amount, MOST), math.max(last[4], till)
    return
  end
  all[#all + 1] = {0, 0, amount, till}
end

-- A bucket at an instant. One that is not soft never owes more than it holds, and what is on lease, and what requests
-- wait with: that may still be given back, and can't be credited once it was cut off.
local function owing(counter, limit, capacity, soft, to)
  local tokens, parts, sum = counter[B], counter[C], counter[LEASED]
  local most = capacity + sum + counter[NEEDED]
  if tokens >= most and soft == 0 then
    tokens, parts = most, 0
  end
  return drained(counter[A], tokens, parts, limit, counter[WINDOW], sum, to)
end

-- A bucket lets go of leases that have ended, one after the other: until then each held it down.
local function settle_bucket(counter)
  local all = leases(counter)
  counter[REST] = all
  while true do
    local first, till
    for place, lease in ipairs(all) do
      local ends = math.abs(lease[4])
      if ends <= now and (not first or ends < till) then
        first, till = place, ends
      end
    end
    sum_up(counter, all)
    if not first then
      break
    end
    counter[A], counter[B], counter[C] = owing(counter, counter[LIMIT], counter[CAPACITY], 0, till)
    table.remove(all, first)
  end
  -- What a request waited for drains as any other charge: only what is left of it can come back.
  local _, left
  for _, lease in ipairs(all) do
    if lease[4] < 0 then
      if not left then
        _, left = owing(counter, counter[LIMIT], counter[CAPACITY], 0, now)
      end
      lease[3] = math.min(lease[3], left - counter[LEASED])
    end
  end
  if left then
    sum_up(counter, all)
  end
end

local used, enter, settle, room_at
if logs > 0 then
  function used(counter)
    return (counter[TOTAL] - counter[BASE]) % WRAP + counter[LENT]
  end

  -- The entry at a place: first those of the list, then those that are yet to be added to it, then the newest.
  local function entry(counter, place)
    local older, pushed = counter[OLDER], counter[PUSHED]
    local packed
    if place < older then
      packed = call('LINDEX', counter[LIST], place)
    else
      packed = pushed[place - older + 1]
    end
    if packed then
      local at, total = read('<dd', packed)
      return at, total
    end
    return counter[NEWEST], counter[TOTAL]
  end

  -- The first entry that has what is looked for, which the newest has. Most often it is among the first.
  local function find(counter, has)
    local before, found = counter[DROPPED] - 1, counter[OLDER] + #counter[PUSHED]
    local step = 1
    while before + step < found do
      if has(entry(counter, before + step)) then
        found = before + step
      else
        before, step = before + step, step * 2
      end
    end
    while found - before > 1 do
      local middle = floor((before + found) / 2)
      if has(entry(counter, middle)) then
        found = middle
      else
        before = middle
      end
    end
    return found
  end

  -- Adds what was used at an instant. Entries stay in order, so that it may be a little later.
  function enter(counter, at, count)
    local newest, total = counter[NEWEST], counter[TOTAL]
    count = math.min(count, MOST - used(counter))
    local held = counter[OLDER] + #counter[PUSHED] - counter[DROPPED]
    if newest == 0 then
      counter[OLDEST], counter[NEWEST] = at, at
    elseif at > newest then
      -- A log that is full makes its newest entry later.
      if held < 100000 then
        counter[PUSHED][#counter[PUSHED] + 1] = pack('<dd', newest, total)
      end
      counter[NEWEST] = at
    end
    if total >= WRAP - count then
      counter[TOTAL] = total - (WRAP - count)
    else
      counter[TOTAL] = total + count
    end
  end

  -- Enters what can no longer be spent, and drops what has left.
  function settle(counter)
    local window = counter[WINDOW]
    local all, ahead = leases(counter), {}
    local sum = 0
    for _, lease in ipairs(all) do
      sum = sum + lease[3]
    end
    counter[LENT] = sum
    for _, lease in ipairs(all) do
      if lease[4] <= now then
        counter[LENT] = counter[LENT] - lease[3]
        enter(counter, lease[4], lease[3])
      else
        ahead[#ahead + 1] = lease
      end
    end
    counter[REST] = ahead
    if counter[NEWEST] + window <= now then
      counter[TOTAL], counter[NEWEST], counter[BASE], counter[OLDEST] = 0, 0, 0, 0
      counter[DROPPED] = counter[OLDER] + #counter[PUSHED]
    elseif counter[OLDEST] + window <= now then
      local oldest = find(counter, function(at)
        return at + window > now
      end)
      local _, base = entry(counter, oldest - 1)
      counter[OLDEST], counter[BASE], counter[DROPPED] = entry(counter, oldest), base, oldest
    end
  end

  -- When `cost`, or one unit, fits; if it does already, when the oldest entry leaves; 0 with none.
  function room_at(counter, limit, cost)
    local window, base = counter[WINDOW], counter[BASE]
    local held = used(counter) - counter[LENT]
    local over = used(counter) + math.max(cost, 1) - limit
    local ahead, oldest, last = counter[REST], counter[OLDEST], counter[NEWEST]
    if over > 0 and #ahead > 1 then
      ahead = {unpack(ahead)}
      table.sort(ahead, function(one, other)
        return one[4] < other[4]
      end)
    end
    for _, lease in ipairs(ahead) do
      if oldest == 0 or lease[4] < oldest then
        oldest = lease[4]
      end
      last = math.max(last, lease[4])
    end
    if last == 0 then
      return 0
    elseif over <= 0 then
      return oldest + window
    end
    -- When the log alone has let go of so much.
    local function left(amount)
      if amount <= 0 then
        return 0
      elseif amount > held then
        return WRAP
      end
      local found = entry(counter, find(counter, function(_, total)
        return (total - base) % WRAP >= amount
      end))
      return found
    end
    for _, lease in ipairs(ahead) do
      local alone = left(over)
      if alone <= lease[4] then
        return alone + window
      end
      over = over - lease[3]
      if left(over) <= lease[4] then
        return lease[4] + window
      end
    end
    return math.min(left(over), last) + window
  end
end

-- The counters as they stand.
local counters, list = {0, 0, 0, 0}, subjects + 1
for place = 1, subjects do
  local kind, limit, capacity, window, revision, left, start, finish, following
  kind, limit, capacity, window, revision, left, at = read('<dddddd', args, at)
  if kind == QUOTA then
    start, finish, following, at = read('<ddd', args, at)
  end
  local asked_limit, asked_capacity = limit, capacity
  local value = values[place + 1]
  local expires, a, b, c, rest, news, before, before_capacity = 0, 0, 0, 0, false, false
  local idle, reported, taken_over = false, nil, nil
  if value then
    local of, known_revision, known_limit, known_capacity, known_expires, x, y, z = read('<dddddddd', value)
    if of == began and now < known_expires then
      expires, a, b, c = known_expires, x, y, z
      if #value > 64 then
        rest = value:sub(65)
        local first = kind == LOG and 81 or 65
        local from = first
        while from < #value do
          local mark, x, y, z = read('<dddd', value, from)
          if mark >= 0 then
            break
          end
          from = from + 32
          if mark == -3 then
            taken_over = taken_over or {}
            if now < -z then
              table.insert(taken_over, {mark, x, y, z})
            end
          elseif mark == -2 then
            reported = {mark, x, y, z}
          elseif now < IDLE_KEPT - z then
            idle = {mark, x, y, z}
          end
        end
        if from > first then
          rest = value:sub(65, first - 1) .. value:sub(from)
          rest = rest ~= '' and rest
        end
      end
      -- A newer revision of its limit is kept, even if whoever tells of it is denied.
      news = revision > known_revision
      if known_revision > revision and revision > 0 then
        limit, capacity, revision = known_limit, known_capacity, known_revision
      elseif news and (limit ~= known_limit or capacity ~= known_capacity) then
        before, before_capacity, idle = known_limit, known_capacity, false
      end
    end
  end
  -- Of a counter that is unknown in a slot that lost something, everything was used up just then; of one that replaces
  -- a counter of another slot when that was left, and this is kept, so that it is so once.
  local lost = began
  if expires == 0 and plain == 0 and left > 0 then
    lost, news = math.max(began, math.min(left, now)), true
  end
  local cold = expires == 0 and lost > 0
  if kind <= LEAKY then
    if cold then
      -- Half of it may have been on lease.
      a, b, rest = lost, capacity, {{0, 0, floor(capacity / 2), lost + LONGEST_HOLD}}
    end
  elseif kind == LOG then
    if cold then
      a, b = limit, lost + LONGEST_HOLD
    end
  else
    if cold then
      if kind == FIRST then
        a, b = lost + window, limit
      elseif kind == QUOTA then
        a, b = (lost < start and start) or (lost < finish and finish) or following, limit
      else
        a = (floor(lost / window) + 1) * window
        if kind == SLIDING then
          c = limit
        else
          b = limit
        end
      end
    end
    if now >= a then
      rest = false
      if kind == SLIDING and a ~= 0 and now - a < window then
        a, b, c = a + window, c, 0
      elseif kind == FIRST then
        -- It begins with its first request, and not with what is told of its limit.
        a, b, c, news = now + window, 0, 0, false
      elseif kind == QUOTA then
        a, b, c = (now < start and start) or (now < finish and finish) or following, 0, 0
      else
        a, b, c = (floor(now / window) + 1) * window, 0, 0
      end
    end
  end
  local counter = {
    kind, limit, capacity, window, revision, asked_limit, asked_capacity, expires, a, b, c, rest, news, 0,
  }
  counters[place] = counter
  if reported or taken_over then
    counter[REPORTED], counter[TAKEN_OVER] = reported, taken_over
  end
  if kind <= LEAKY then
    counter[LEASED], counter[NEEDED], counter[IDLE], counter[IDLE_NOW] = 0, 0, idle, false
    if before then
      -- Until now it has refilled by the numbers that it had before.
      counter[LIMIT], counter[CAPACITY] = before, before_capacity
      if rest then
        settle_bucket(counter)
      end
      counter[A], counter[B], counter[C] = owing(counter, before, before_capacity, 0, now)
      counter[LIMIT], counter[CAPACITY] = limit, capacity
    end
    if rest then
      settle_bucket(counter)
    end
    if settlements > 0 and not before and not cold and a <= now then
      -- What it could have drained since it was last written, and did not. Of two parts of a token nobody knows how much
      -- they make.
      local _, left = owing(counter, limit, capacity, 0, now)
      local could = muldiv(limit, now - a, window)
      counter[IDLE_NOW] = {-1, a, math.max(math.min(could, MOST) - math.max(b - left, 0) - 1, 0), -now}
    end
  elseif kind == LOG then
    list = list + 1
    local oldest, older = b, 0
    if rest then
      oldest, older = read('<dd', rest)
      counter[REST] = rest:sub(17)
    end
    counter[OLDEST], counter[OLDER], counter[DROPPED], counter[PUSHED] = oldest, older, 0, {}
    counter[LIST], counter[LENT] = KEYS[list], 0
    settle(counter)
  end
end

-- Charges what went through whether or not there was room.
local function charge_anyway(counter, cost)
  local kind = counter[KIND]
  if kind <= LEAKY then
    local a, b, c = owing(counter, counter[LIMIT], counter[CAPACITY], 1, now)
    counter[A], counter[B], counter[C] = a, math.min(b + cost, MOST), c
    counter[CHANGED] = true
  elseif cost > 0 then
    if kind == LOG then
      enter(counter, now, cost)
    else
      local count = kind == SLIDING and C or B
      counter[count] = math.min(counter[count] + cost, MOST)
    end
    counter[CHANGED] = true
  end
end

-- What nodes let through by themselves is charged. What has drained on them counts as drained only as far as the bucket
-- stood idle at that time.
local function charge_fallback(counter, cost, drained, since, age, nodes)
  local kind, limit, capacity = counter[KIND], counter[LIMIT], counter[CAPACITY]
  if kind <= LEAKY then
    local idle = counter[IDLE]
    if not idle or -idle[4] <= since then
      idle = counter[IDLE_NOW]
    end
    -- Who has not heard of this generation knows no time of it, nor does anybody if the clock was set back.
    local knows_time = heard_began == began and since + age <= now
    local knows_numbers = limit == counter[ASKED_LIMIT] and capacity == counter[ASKED_CAPACITY]
    if idle and drained > 0 and knows_time and knows_numbers then
      -- What drained at another time may have been no more than the node's share.
      local outside, rest = muldiv(limit, math.max(now + idle[4], 0) + math.max(idle[2] - since, 0), counter[WINDOW])
      outside = math.ceil(math.min(outside + (rest > 0 and 1 or 0), MOST) / nodes)
      local used = math.min(math.max(drained - outside, 0), idle[3])
      drained = drained - used
      counter[IDLE] = idle[3] > used and {-1, idle[2], idle[3] - used, idle[4]}
    end
  end
  cost = cost + drained
  charge_anyway(counter, cost)
  if cost > 0 then
    local reported = counter[REPORTED] or {-2, now, 0, 0}
    counter[REPORTED] = {-2, reported[2], math.min(reported[3] + cost, MOST), 0}
  end
end

local let_through = {}
for _ = 1, settlements do
  local subject, cost, drained, since, age, nodes
  subject, cost, drained, since, age, nodes, at = read('<dddddd', args, at)
  let_through[#let_through + 1] = {subject, cost, drained, since, age, nodes}
end
local function charge_fallbacks(place)
  for _, one in ipairs(let_through) do
    if one[1] == place then
      charge_fallback(counters[place], one[2], one[3], one[4], one[5], one[6])
    end
  end
end

-- A counter that is untouched has no more room than those it replaces have left, and what they have on lease holds it
-- down. They are charged first.
if formers > 0 then
  local function remaining(counter)
    local kind, limit, capacity = counter[KIND], counter[LIMIT], counter[CAPACITY]
    if limit == 0 then
      return 0
    elseif kind <= LEAKY then
      local _, owed, over = owing(counter, limit, capacity, 0, now)
      return math.max(capacity - owed - (over > 0 and 1 or 0), 0)
    elseif kind == LOG then
      return math.max(limit - used(counter), 0)
    elseif kind == SLIDING then
      return math.max(limit - faded(counter), 0)
    end
    return math.max(limit - counter[B], 0)
  end

  local function narrow(counter, all)
    local room, amount, ends
    for _, place in ipairs(all) do
      local former = counters[place]
      if former[EXPIRES] > 0 or former[CHANGED] then
        local more, till = on_lease(leases(former))
        room = math.min(room or MOST, remaining(former))
        amount, ends = math.min((amount or 0) + more, MOST), math.max(ends or 0, till)
      end
    end
    if not room then
      return
    end
    local kind = counter[KIND]
    if kind <= LEAKY then
      counter[IDLE_NOW] = false
      -- No part of a token more, either.
      local a, b = owing(counter, counter[LIMIT], counter[CAPACITY], 0, now)
      local least = math.max(counter[CAPACITY] - room, 0)
      if b < least then
        counter[A], counter[B], counter[C] = a, least, 0
      end
      if amount > 0 then
        local held = leases(counter)
        hold_down(held, amount, ends)
        counter[REST] = held
        sum_up(counter, held)
      end
      return
    end
    local excess = remaining(counter) - room
    if excess > 0 then
      if kind == LOG then
        enter(counter, now, excess)
      elseif kind == SLIDING then
        counter[C] = counter[C] + excess
      else
        counter[B] = counter[B] + excess
      end
    end
  end

  -- Nodes may report to a counter after another has begun with what it had left: that one takes over what it has not
  -- seen. One that is untouched was narrowed by it.
  local function take_over(counter, all)
    local notes, late = counter[TAKEN_OVER] or {}, 0
    for _, place in ipairs(all) do
      local former, reported, note = counters[place], counters[place][REPORTED]
      if reported then
        local name = redis.sha1hex(KEYS[place + 1] .. (' %.0f'):format(reported[2]))
        name = tonumber(name:sub(1, 13), 16)
        for _, known in ipairs(notes) do
          note = known[2] == name and known or note
        end
        if not note then
          note = {-3, name, 0, 0}
          table.insert(notes, note)
        end
        late = math.min(late + reported[3] - note[3], MOST)
        note[3], note[4] = reported[3], -(math.max(former[EXPIRES], now + former[WINDOW]) + GRACE)
      end
    end
    counter[TAKEN_OVER] = notes
    -- A window that begins with its first request has not begun: what came before is not in it.
    local unopened = counter[KIND] == FIRST and counter[B] == 0
    if late > 0 and counter[EXPIRES] > 0 and not unopened then
      charge_anyway(counter, late)
    end
  end

  local replaced, is_replaced = {}, {}
  for _ = 1, formers do
    local subject, former
    subject, former, at = read('<dd', args, at)
    is_replaced[former] = true
    replaced[subject] = replaced[subject] or {}
    table.insert(replaced[subject], former)
  end
  -- First those that replace nothing, then those that are replaced themselves.
  for turn = 1, 3 do
    for place = 1, subjects do
      local all, counter = replaced[place], counters[place]
      if turn == (not all and 1 or is_replaced[place] and 2 or 3) then
        if all and counter[EXPIRES] == 0 then
          narrow(counter, all)
        end
        if all then
          take_over(counter, all)
        end
        charge_fallbacks(place)
      end
    end
  end
elseif settlements > 0 then
  for place = 1, subjects do
    charge_fallbacks(place)
  end
end

-- Leases are taken back, each once.
for _ = 1, returns do
  local subject, node, number, unspent, last_spent
  subject, node, number, unspent, last_spent, at = read('<ddddd', args, at)
  local counter = counters[subject]
  local kind, rest = counter[KIND], counter[REST]
  if rest then
    local all = leases(counter)
    counter[REST] = all
    for place, lease in ipairs(all) do
      if number > 0 and lease[1] == node and lease[2] == number then
        unspent = math.min(unspent, lease[3])
        if kind <= LEAKY then
          local a, b, c = owing(counter, counter[LIMIT], counter[CAPACITY], 0, now)
          b = b - unspent
          if b < 0 then
            b, c = 0, 0
          end
          counter[A], counter[B], counter[C] = a, b, c
        elseif kind == LOG then
          counter[LENT] = counter[LENT] - lease[3]
          if lease[3] > unspent then
            enter(counter, math.min(last_spent, lease[4]), lease[3] - unspent)
          end
        elseif kind == SLIDING then
          counter[C] = math.max(counter[C] - unspent, 0)
        else
          counter[B] = math.max(counter[B] - unspent, 0)
        end
        table.remove(all, place)
        if kind <= LEAKY then
          if lease[4] < 0 then
            -- Without it the others would have drained so much sooner.
            for _, other in ipairs(all) do
              if other[4] < 0 then
                other[3] = math.max(other[3] - unspent, 0)
              end
            end
          end
          sum_up(counter, all)
        end
        counter[CHANGED] = true
        break
      end
    end
  end
end

-- Each need is looked at as a whole, then charged as a whole. What is seen of its parts lies in one table, four numbers
-- for each, and goes into the reply from there.
local reply, size, format, shown = {pack('<dd', now, began), nil, nil, nil}, 1, '', 0
local looked, costs, modes = {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}
local seen = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
for need = 1, needs do
  local charge, parts
  charge, parts, at = read('<dd', args, at)
  local allowed = true
  for part = 1, parts do
    local subject, limit, capacity, cost, mode
    subject, limit, capacity, cost, mode, at = read('<ddddd', args, at)
    local counter = counters[subject]
    local kind, a, b, c = counter[KIND], counter[A], counter[B], counter[C]
    if limit == counter[ASKED_LIMIT] and capacity == counter[ASKED_CAPACITY] then
      limit, capacity = counter[LIMIT], counter[CAPACITY]
    end
    local fits
    if kind <= LEAKY then
      a, b, c = owing(counter, limit, capacity, mode == SOFT and 1 or 0, now)
      fits = b + cost + (c > 0 and 1 or 0) <= capacity
    elseif kind == LOG then
      a, c = used(counter), room_at(counter, limit, cost)
      fits = a + cost <= limit
    elseif kind == SLIDING then
      fits = faded(counter) + cost <= limit
    else
      fits = b + cost <= limit
    end
    looked[part], costs[part], modes[part] = counter, cost, mode
    local place = part * 4
    if cost == 0 or (fits and limit > 0 and cost <= capacity) then
      seen[place - 3] = 1
    else
      seen[place - 3] = 0
      allowed = allowed and mode ~= ENFORCE
    end
    seen[place - 2], seen[place - 1], seen[place] = a, b, c
  end
  for part = 1, allowed and parts or 0 do
    local counter, cost, place = looked[part], costs[part], part * 4
    if cost > 0 and (seen[place - 3] == 1 or modes[part] == SOFT) then
      local kind = counter[KIND]
      local written = charge == 1 and counter[PAID] ~= need
      counter[PAID] = need
      -- The number that counts: a log's first, a sliding counter's last, any other's second.
      local which = place - (kind == LOG and 2 or kind == SLIDING and 0 or 1)
      local count = seen[which] + cost
      seen[which] = count < MOST and count or MOST
      if kind == LOG then
        seen[place - 1] = math.max(seen[place - 1], now)
        if seen[place] == 0 then
          seen[place] = seen[place - 1] + counter[WINDOW]
        end
      end
      if written then
        counter[CHANGED] = true
        if kind == LOG then
          enter(counter, now, cost)
        else
          counter[A], counter[B], counter[C] = seen[place - 2], seen[place - 1], seen[place]
        end
      end
    end
  end
  if shown ~= parts then
    format, shown = '<' .. ('dddd'):rep(parts), parts
  end
  size = size + 1
  reply[size] = pack(format, unpack(seen, 1, parts * 4))
end

-- Takes note of a lease, so that it can come back: of four of a node, what is left of some when the next is lent, and
-- of 32 in all. Of more only the latest can.
local function note(counter, node, number, amount, till)
  local all, kind = leases(counter), counter[KIND]
  local own, others, oldest, first, own_spent, first_spent = 0, 0, 0, 0, false, false
  for place = #all, 1, -1 do
    local lease = all[place]
    if lease[2] > 0 then
      local spent = lease[4] < 0
      others, first = others + 1, place
      first_spent = spent and place or first_spent
      if lease[1] == node then
        own, oldest = own + 1, place
        own_spent = spent and place or own_spent
      end
    end
  end
  if own >= 4 or others >= 32 then
    -- The oldest that a request waited for and has spent is worth the least, then the oldest.
    local place = own >= 4 and (own_spent or oldest) or (first_spent or first)
    local lease = table.remove(all, place)
    if kind == LOG then
      counter[LENT] = counter[LENT] - lease[3]
      enter(counter, lease[4], lease[3])
    elseif kind <= LEAKY then
      hold_down(all, lease[3], lease[4])
    end
  end
  all[#all + 1] = {node, number, amount, till}
  counter[REST], counter[CHANGED] = all, true
  if kind <= LEAKY then
    sum_up(counter, all)
  end
end

-- What is wanted ahead is lent as far as there is room for it.
for _ = 1, wants do
  local subject, amount, hold, node, number, most, needed
  subject, amount, hold, node, number, most, needed, at = read('<ddddddd', args, at)
  local counter, soft = counters[subject], most >= MOST and 1 or 0
  local kind, limit, capacity, window = counter[KIND], counter[LIMIT], counter[CAPACITY], counter[WINDOW]
  hold = math.min(hold, LONGEST_HOLD)
  if limit == 0 then
    amount, hold = 0, 0
  elseif kind <= LEAKY then
    local a, b, c = owing(counter, limit, capacity, soft, now)
    local behind = true
    if kind == LEAKY and needed == 0 then
      local whole, rest = muldiv(hold, limit, window)
      behind = b > whole or (b == whole and c >= rest)
    end
    if not behind then
      -- A turn that may have passed when it is spent is nobody's.
      amount, hold = 0, 0
    else
      if soft == 0 then
        amount = math.min(amount, math.max(math.min(capacity, most) - b - (c > 0 and 1 or 0), 0))
      end
      if needed == 0 then
        -- So much a bucket holds back after a loss.
        amount = math.min(amount, math.max(floor(capacity / 2) - counter[LEASED], 0))
      end
      if amount > 0 then
        counter[A], counter[B], counter[C] = a, math.min(b + amount, MOST), c
        note(counter, node, number, amount, needed == 0 and now + hold or -(now + hold))
      end
    end
  else
    local taken
    if kind == LOG then
      taken = used(counter)
    elseif kind == SLIDING then
      taken = faded(counter)
    else
      taken = counter[B]
    end
    amount = math.min(amount, math.max((soft == 0 and math.min(limit, most) or MOST) - taken, 0))
    if amount == 0 or (kind == FIRST and taken == 0 and needed == 0) then
      amount, hold = 0, 0
    else
      if kind == LOG then
        counter[LENT] = counter[LENT] + amount
      else
        hold = math.min(hold, counter[A] - now)
        local count = kind == SLIDING and C or B
        counter[count] = math.min(counter[count] + amount, MOST)
      end
      note(counter, node, number, amount, now + hold)
    end
  end
  local a, b, c = counter[A], counter[B], counter[C]
  if kind <= LEAKY then
    a, b, c = owing(counter, limit, capacity, soft, now)
  elseif kind == LOG then
    a, c = used(counter), room_at(counter, limit, 0)
  end
  size = size + 1
  reply[size] = pack('<ddddd', amount, hold, a, b, c)
end

-- What changed is written, with an expiry that is moved ahead only now and then.
for place = 1, subjects do
  local counter = counters[place]
  if counter[CHANGED] then
    local kind, expires, rest = counter[KIND], counter[EXPIRES], counter[REST]
    local matters = counter[A]
    if kind <= LEAKY then
      local limit = counter[LIMIT]
      for _, lease in ipairs(rest or {}) do
        matters = math.max(matters, math.abs(lease[4]))
      end
      local refill = muldiv(counter[B] + 1, counter[WINDOW], limit > 0 and limit or 1)
      matters = matters + (refill < MOST and refill or MOST)
    elseif kind >= SLIDING then
      if kind == LOG then
        matters = counter[NEWEST] == 0 and now or counter[NEWEST]
        for _, lease in ipairs(rest) do
          matters = math.max(matters, lease[4])
        end
      end
      matters = matters + counter[WINDOW]
    end
    local known, later = expires > 0, matters + GRACE > expires
    if later then
      expires = matters + GRACE + GRACE
    end
    local value = pack(
      '<dddddddd', began, counter[REVISION], counter[LIMIT], counter[CAPACITY], expires,
      counter[A], counter[B], counter[C]
    )
    if kind == LOG then
      local key, older, pushed = counter[LIST], counter[OLDER], counter[PUSHED]
      local dropped = counter[DROPPED]
      if not known or (older > 0 and dropped >= older) then
        call('DEL', key)
      elseif older > 0 and dropped > 0 then
        call('LTRIM', key, dropped, -1)
      end
      local from = math.max(dropped - older, 0) + 1
      if from <= #pushed then
        call('RPUSH', key, unpack(pushed, from))
      end
      local left = older + #pushed - dropped
      if left > 0 and (later or dropped >= older) then
        call('PEXPIREAT', key, math.ceil(expires / 1000))
      end
      value = value .. pack('<dd', counter[OLDEST], left)
    end
    if kind <= LEAKY and counter[IDLE] then
      value = value .. pack('<dddd', unpack(counter[IDLE]))
    end
    if counter[REPORTED] then
      value = value .. pack('<dddd', unpack(counter[REPORTED]))
    end
    for _, note in ipairs(counter[TAKEN_OVER] or {}) do
      value = value .. pack('<dddd', unpack(note))
    end
    if rest then
      if type(rest) == 'table' then
        local all = {}
        for lease = 1, #rest do
          all[lease] = pack('<dddd', unpack(rest[lease]))
        end
        rest = table.concat(all)
      end
      value = value .. rest
    end
    if later then
      call('SET', KEYS[place + 1], value, 'PXAT', math.ceil(expires / 1000))
    else
      call('SET', KEYS[place + 1], value, 'KEEPTTL')
    end
  end
end
return table.concat(reply)
