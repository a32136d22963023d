// redis-semaphore: a Mutex, which refreshes by itself, with onLockLost as in "Example with lost lock handling". Its keys begin with mutex:.
'use strict'
const Redis = require('ioredis')

exports.of = ({ Mutex }, told = true) => (options, policy) => {
  const redis = new Redis(options)
  return {
    ping: () => redis.ping(),
    hold: (key, token, claims) => {
      const mutex = new Mutex(redis, key.slice('mutex:'.length), {
        lockTimeout: policy.ttl / 1e6,
        acquireTimeout: policy.ttl / 1e6, // as the defaults have it: as long as the lease
        identifier: token, // so that it is known before the call
        ...(told ? { onLockLost: () => claims.lost('not_owned') } : {}) // by default it throws
      })
      const refresh = mutex._refresh.bind(mutex)
      mutex._refresh = () => claims.renew(refresh)
      return {
        acquire: () => mutex.tryAcquire(),
        release: async () => {
          const owned = mutex.isAcquired
          await mutex.release()
          return owned
        }
      }
    }
  }
}

exports.open = exports.of(require('redis-semaphore'))
