// redlock 4: lock, extend by the caller, unlock (README, "Locking and Extending").
'use strict'
const Redis = require('ioredis')

exports.of = Redlock => (options, policy) => {
  const redis = new Redis(options)
  const ttl = policy.ttl / 1e6
  return {
    ping: () => redis.ping(),
    hold: (key, token) => {
      const redlock = new Redlock([redis])
      redlock._random = () => token // so that it is known before the call
      let failed = null // what the client said of the last call
      redlock.on('clientError', e => { failed = e })
      const done = async make => {
        failed = null
        try {
          return [await make()]
        } catch (e) {
          if (failed) throw failed
          if (e instanceof Redlock.LockError) return false
          throw e
        }
      }
      let lock
      return {
        acquire: async () => { const got = await done(() => redlock.lock(key, ttl)); lock = got && got[0]; return !!got },
        expired: () => lock.expiration < Date.now(), // extend refuses that without a call
        extend: async () => !!await done(() => lock.extend(ttl)),
        release: async () => !!await done(() => lock.unlock())
      }
    }
  }
}

exports.open = exports.of(require('redlock4'))
