//! What Redis does in one step: each script leaves every job in exactly one place.

use redis::Script;

/// All of them, compiled once.
pub(crate) struct Scripts {
    pub(crate) fetch: Script,
    pub(crate) end: Script,
    pub(crate) back: Script,
    pub(crate) sweep: Script,
    pub(crate) promote: Script,
    pub(crate) take: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            fetch: Script::new(FETCH),
            end: Script::new(END),
            back: Script::new(BACK),
            sweep: Script::new(SWEEP),
            promote: Script::new(PROMOTE),
            take: Script::new(TAKE),
        }
    }
}

/// Moves jobs from queues into the hash of those that a process holds.
///
/// Keys: the set of holders, the hash, the set of paused queues, then the queues. Arguments: the
/// holder's name, the first number, the most jobs in all, then the most of each queue. Gives for
/// each queue its jobs, the oldest last, or nothing if it is paused.
const FETCH: &str = r"
local number, left = tonumber(ARGV[2]), tonumber(ARGV[3])
local some_paused = redis.call('EXISTS', KEYS[3]) == 1
local found = {}
for i = 4, #KEYS do
  local queue = KEYS[i]
  local name = string.sub(queue, 7)
  local most = math.min(left, tonumber(ARGV[i]))
  local jobs = {}
  if some_paused and redis.call('SISMEMBER', KEYS[3], name) == 1 then
    jobs = false
  elseif most > 0 then
    jobs = redis.pcall('LRANGE', queue, -most, -1)
    -- Something else lies under the name of a queue: the other queues go on.
    if jobs.err then jobs = {} end
  end
  local count = jobs and #jobs or 0
  if count > 0 then
    local fields = {}
    for j = 1, count do
      fields[2 * j - 1] = (number + j - 1) .. ' ' .. name
      fields[2 * j] = jobs[count + 1 - j]
    end
    redis.call('SADD', KEYS[1], ARGV[1])
    redis.call('HSET', KEYS[2], unpack(fields))
    redis.call('LTRIM', queue, 0, -(count + 1))
    number, left = number + count, left - count
  end
  found[i - 3] = jobs
end
return found
";

/// Ends jobs: they leave the hash, and go into a sorted set if told so. What is not in the hash
/// any more was given to others meanwhile and is left alone.
///
/// Keys: the hash, `retry`, `dead`, `stat:processed`, `stat:failed`, those two with the date, and
/// `schedule`.
/// Arguments: the score below which the dead are dropped, the most dead, how long the dated
/// counters live (s), how many failed, how many are done, their fields, then field, set (2, 3
/// or 8), score and job of those that go on. Gives how many were there and ended.
const END: &str = r"
local done = tonumber(ARGV[5])
local count = 0
for i = 6, 5 + done, 1000 do
  count = count + redis.call('HDEL', KEYS[1], unpack(ARGV, i, math.min(i + 999, 5 + done)))
end
local died = false
for i = 6 + done, #ARGV, 4 do
  if redis.call('HDEL', KEYS[1], ARGV[i]) == 1 then
    local set = tonumber(ARGV[i + 1])
    if set ~= 8 then count = count + 1 end
    died = died or set == 3
    redis.call('ZADD', KEYS[set], ARGV[i + 2], ARGV[i + 3])
  end
end
if died then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[1])
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -ARGV[2])
end
if count > 0 then
  redis.call('INCRBY', KEYS[4], count)
  if redis.call('INCRBY', KEYS[6], count) == count then
    redis.call('EXPIRE', KEYS[6], ARGV[3])
  end
end
local failed = tonumber(ARGV[4])
if failed > 0 then
  redis.call('INCRBY', KEYS[5], failed)
  if redis.call('INCRBY', KEYS[7], failed) == failed then
    redis.call('EXPIRE', KEYS[7], ARGV[3])
  end
end
return count
";

/// Puts jobs from the hash back where they are taken next. Keys: the hash, `queues`. Arguments:
/// the fields, the first to be taken first. Gives how many were there.
const BACK: &str = r"
local count = 0
for i = #ARGV, 1, -1 do
  local job = redis.call('HGET', KEYS[1], ARGV[i])
  if job then
    local name = string.sub(ARGV[i], string.find(ARGV[i], ' ', 1, true) + 1)
    redis.call('SADD', KEYS[2], name)
    redis.call('RPUSH', 'queue:' .. name, job)
    redis.call('HDEL', KEYS[1], ARGV[i])
    count = count + 1
  end
end
return count
";

/// Puts jobs that a process held back, or into the dead set, unless it is alive, and forgets it
/// when it holds nothing more. Keys: its sign of life, its hash, `queues`, the set of holders,
/// `dead`. Arguments: its name, the score of the dead, then the field, whether it is dead (1 or 0),
/// and the job of each. Gives how many were there, or -1 if it lives.
const SWEEP: &str = r"
if redis.call('EXISTS', KEYS[1]) == 1 then return -1 end
local count = 0
for i = 3, #ARGV, 3 do
  if redis.call('HDEL', KEYS[2], ARGV[i]) == 1 then
    if ARGV[i + 1] == '1' then
      redis.call('ZADD', KEYS[5], ARGV[2], ARGV[i + 2])
    else
      local name = string.sub(ARGV[i], string.find(ARGV[i], ' ', 1, true) + 1)
      redis.call('SADD', KEYS[3], name)
      redis.call('RPUSH', 'queue:' .. name, ARGV[i + 2])
    end
    count = count + 1
  end
end
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('SREM', KEYS[4], ARGV[1]) end
return count
";

/// Takes jobs away by hand. Keys: where they lie, the dead set. Arguments: `list` or `zset`, the
/// score at which they are buried (nothing: they are not), the score below which the dead are
/// dropped, the most dead, then the jobs. Gives for each how many went.
const TAKE: &str = r"
local gone = {}
for i = 5, #ARGV do
  local count
  if ARGV[1] == 'list' then
    count = redis.call('LREM', KEYS[1], -1, ARGV[i])
  else
    count = redis.call('ZREM', KEYS[1], ARGV[i])
  end
  if count > 0 and ARGV[2] ~= '' then redis.call('ZADD', KEYS[2], ARGV[2], ARGV[i]) end
  gone[#gone + 1] = count
end
if ARGV[2] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[3])
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -ARGV[4])
end
return gone
";

/// Moves jobs from a sorted set into queues. Keys: the set, `queues`. Arguments: the member, the
/// queue and the job of each. Gives how many were still there.
const PROMOTE: &str = r"
local lists = {}
local count = 0
for i = 1, #ARGV, 3 do
  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
    local name = ARGV[i + 1]
    local list = lists[name]
    if not list then
      list = {}
      lists[name] = list
    end
    list[#list + 1] = ARGV[i + 2]
    count = count + 1
  end
end
for name, list in pairs(lists) do
  redis.call('SADD', KEYS[2], name)
  for i = 1, #list, 1000 do
    redis.call('LPUSH', 'queue:' .. name, unpack(list, i, math.min(i + 999, #list)))
  end
end
return count
";
