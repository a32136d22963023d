// What redlock 5 and its fork share: the work is a routine that using() runs under the lock.
'use strict'
const Redis = require('ioredis')

exports.using = ({ default: Default, Redlock = Default, ExecutionError, ResourceLockedError }) => (options, policy) => {
  const redis = new Redis(options)
  const ttl = policy.ttl / 1e6
  // An ExecutionError says that there was no quorum; what each server said is in its attempts.
  const told = async e => {
    if (!(e instanceof ExecutionError)) throw e
    const last = e.attempts.length ? await e.attempts[e.attempts.length - 1] : null
    for (const error of last ? last.votesAgainst.values() : []) if (!(error instanceof ResourceLockedError)) throw error
    return false
  }
  return {
    ping: () => redis.ping(),
    hold: (key, token, claims) => {
      const redlock = new Redlock([redis])
      redlock._random = () => token // so that it is known before the call
      const extend = redlock.extend.bind(redlock)
      redlock.extend = async (...args) => {
        if (args[0].expiration < Date.now()) return extend(...args) // it refuses that without a call
        let lock, error
        await claims.renew(async () => {
          try {
            lock = await extend(...args)
            return true
          } catch (e) {
            error = e
            return told(e)
          }
        }).catch(() => {})
        if (error) throw error
        return lock
      }
      let finish, done
      return {
        acquire: () => new Promise((resolve, reject) => {
          done = redlock.using([key], ttl, async signal => {
            signal.addEventListener('abort', () => claims.lost('not_owned'))
            resolve(true)
            await new Promise(resolve => { finish = resolve })
          })
          done.catch(e => told(e).then(resolve, reject))
        }),
        release: async () => {
          finish()
          try {
            await done
            return true
          } catch (e) {
            return told(e)
          }
        }
      }
    }
  }
}
