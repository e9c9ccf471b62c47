-- Compares a request with the holders of its effect (Contend). Returns the refusal:
-- {verdict, record, its name}; or nil and who holds the effect once it is claimed.
local DUPLICATE_EFFECT, EFFECT_IN_FLIGHT, EFFECT_UNKNOWN = 7, 8, 9
local contend
if contended then
  function contend(effect, owner, wants, window, allow)
    -- What one record says (Record.hinders); then when it ended.
    local function hinders(stored)
      local wrong, state, was, _, attempts, e, _, finished, lease, _, _, holder = decode(stored)
      if wrong then
        return wrong
      end
      local harmless = (was == READ_ONLY or was == IDEMPOTENT) and (wants == READ_ONLY or wants == IDEMPOTENT)
      local within = now < finished + window
      if state == DONE then
        return nil, within and DUPLICATE_EFFECT, finished
      elseif state == UNKNOWN then
        return nil, within and EFFECT_UNKNOWN
      elseif state == NOT_RUN or state == CLOSED then
        return nil, was ~= NON_IDEMPOTENT and (attempts > 0 or e > 1) and not harmless and within and EFFECT_UNKNOWN
      elseif now < lease and not succeeds(owner, holder) then
        return nil, EFFECT_IN_FLIGHT
      end
      return nil, not harmless and now < lease + window and EFFECT_UNKNOWN
    end
    local holds = {own()}
    local verdict, worst, record, done, last
    for _, each in ipairs(others(effect)) do
      local stored = redis.call('GET', prefix() .. each)
      if stored then
        local wrong, found, finished = hinders(stored)
        if wrong then
          return redis.error_reply(wrong)
        end
        local newer = false
        if found == DUPLICATE_EFFECT then
          newer = not done or last < finished
          if newer then
            done, last = each, finished
          end
        elseif found then
          holds[#holds + 1] = each
        end
        if found and (not verdict or found < verdict) or found == DUPLICATE_EFFECT and newer then
          verdict, worst, record = found, each, stored
        end
      end
    end
    holds[#holds + 1] = done
    if verdict and (not allow or #holds > MAX_HOLDERS) then
      if verdict == EFFECT_IN_FLIGHT then
        -- For the sake of a hint, as in admit.lua.
        redis.pcall('SETRANGE', prefix() .. worst, WAITED_AT, '\1')
      end
      return {verdict, record, worst}
    end
    return nil, holds
  end
end
