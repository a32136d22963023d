// A lock that does what docs/worker-protocol.md asks for: a drill must accuse it of nothing. It bounds each call, has a fence, counts its
// lease from when it asked, and gives back what it may have got.
'use strict'
const Redis = require('ioredis')

const now = () => Number(process.hrtime.bigint())
const TAKE = `local t = redis.call('TIME')
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return '' end
local fence = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', 86400000)
return string.format('%.0f', fence)`
const PROLONG = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

exports.open = (options, policy) => {
  // A connection that does not answer is given up with its call: ioredis would send the call again, and take the refusal for its answer.
  let redis = null
  const ask = async (script, key, token) => {
    const c = redis || new Redis({ ...options, maxRetriesPerRequest: 0, retryStrategy: null, autoResendUnfulfilledCommands: false, lazyConnect: true })
    redis = c
    c.removeAllListeners('error').on('error', () => {})
    let timer
    const late = new Promise((resolve, reject) => { timer = setTimeout(() => reject(new Error('no answer')), policy.op_timeout / 1e6) })
    try {
      return await Promise.race([c.eval(script, 2, key, '{' + key + '}:fence', token, policy.ttl / 1e6), late])
    } catch (e) {
      c.disconnect()
      if (redis === c) redis = null
      throw e
    } finally {
      clearTimeout(timer)
    }
  }
  return {
    ping: () => ask('return 1', 'x', ''),
    hold: (key, token) => {
      let valid = 0
      const lease = from => { valid = from + policy.ttl - (policy.stop_budget || 0) }
      const change = async script => await ask(script, key, token) === 1
      return {
        async acquire () {
          const from = now()
          const fence = await ask(TAKE, key, token)
          if (fence === '') return false
          this.fence = Number(fence)
          lease(from)
          return true
        },
        async extend () {
          const from = now()
          const ok = await change(PROLONG)
          if (ok) lease(from)
          return ok
        },
        release: () => change(FREE),
        undo: () => change(FREE),
        left: () => valid - now()
      }
    }
  }
}
