#!/usr/bin/env node
// One replica of a scheduler in Node: jobs, and one loop that has a leader, under locks in Redis. It knows nothing of lockdrill.
//
// Its queue, its effects and its log lines are those of scheduler.py. What differs is what Node differs in: one thread, one connection on
// which every command waits for its answer without a limit, and a lock as redlock makes it, which extends itself and tells by a signal that it is
// lost. Commands wait while the connection is away, and those without an answer are sent again when it is back, as ioredis does by default.
// --ioredis MODULE takes ioredis itself. All times are those of production, times --scale. --bug breaks one promise.
'use strict'
const { randomUUID } = require('crypto')
const fs = require('fs')
const http = require('http')
const net = require('net')

const BUGS = {
  'never-renews': 'holds for as long as the work takes, on a lease that nobody extends',
  'no-stop': 'works on after its lock is lost',
  'finishes-twice': 'does a job again that comes again, although it is finished'
}
const JOBS = 'cordum:jobs:pending'
const GROUP = 'scheduler'
const JOB_LOCK = 'cordum:scheduler:job:'
const LOOP = 'reconciler'
const LOOP_LOCK = 'cordum:reconciler:default'
// Seconds of production. A lease is shorter than the work, and is extended when less than THRESHOLD of it is left.
const TTL = 30
const THRESHOLD = 20
const TICK = 5
const REDELIVER = 10
const ACK_EVERY = 20

// The fence of a grant is the store's clock: it does not go back where a counter would be lost.
const ACQUIRE = "if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end local t = redis.call('time') return t[1] * 1000000 + t[2]"
const IF_MINE = then => `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call(${then}) end return 0`
const EXTEND = IF_MINE("'pexpire', KEYS[1], ARGV[2]")
const RELEASE = IF_MINE("'del', KEYS[1]")
// A write that is sent again is the same write. One that arrives when its lock has gone is refused: by the key's value where that is in the same
// Redis, else by the fence. A job ends once. -1: refused.
const APPEND = `if redis.call('sismember', KEYS[1], ARGV[1]) == 1 then return 0 end
if ARGV[4] == 'value' and redis.call('get', KEYS[4]) ~= ARGV[5] then return -1 end
if ARGV[4] == 'fence' then
  if tonumber(ARGV[6]) < tonumber(redis.call('hget', KEYS[5], KEYS[4]) or '0') then return -1 end
  redis.call('hset', KEYS[5], KEYS[4], ARGV[6])
end
redis.call('sadd', KEYS[1], ARGV[1])
if ARGV[2] == '1' and redis.call('sadd', KEYS[2], ARGV[3]) == 0 and ARGV[7] == '1' then return 0 end
redis.call('xadd', KEYS[3], '*', unpack(ARGV, 8))
return 1`

const now = () => performance.now()
const sleep = ms => new Promise(resolve => setTimeout(resolve, Math.max(0, ms)))

// Client is one connection, with the habits of ioredis at its defaults.
class Client {
  constructor (where) {
    this.where = where
    this.waiting = [] // sent, in the order of the answers to come
    this.queue = [] // not sent
    this.failures = 0
    this.connect()
  }

  call (...words) {
    return new Promise((resolve, reject) => {
      this.queue.push({ words, resolve, reject })
      this.flush()
    })
  }

  async connect () {
    const again = () => {
      if (++this.failures % 20 === 0) { // of one command, its maxRetriesPerRequest
        for (const c of [...this.waiting.splice(0), ...this.queue.splice(0)]) c.reject(new Error('Reached the max retries per request limit'))
      }
      setTimeout(() => this.connect(), Math.min(this.failures * 50, 2000))
    }
    let at
    try {
      at = await this.where()
    } catch (e) { return again() }
    this.text = Buffer.alloc(0)
    const socket = net.connect(at)
    socket.setNoDelay(true)
    socket.on('connect', () => {
      this.failures = 0
      this.socket = socket
      this.queue = this.waiting.splice(0).concat(this.queue) // autoResendUnfulfilledCommands
      this.flush()
    })
    socket.on('data', data => this.read(data))
    socket.on('error', () => {})
    socket.on('close', () => {
      this.socket = null
      again()
    })
  }

  flush () {
    while (this.socket && this.queue.length > 0) {
      const c = this.queue.shift()
      this.waiting.push(c)
      const parts = c.words.map(word => Buffer.from(String(word)))
      this.socket.write(Buffer.concat([Buffer.from(`*${parts.length}\r\n`), ...parts.flatMap(p => [Buffer.from(`$${p.length}\r\n`), p, Buffer.from('\r\n')])]))
    }
  }

  read (data) {
    this.text = Buffer.concat([this.text, data])
    for (;;) {
      const answer = parse(this.text, 0)
      if (!answer) return
      this.text = this.text.subarray(answer.end)
      const c = this.waiting.shift()
      if (!(answer.value instanceof Error)) c.resolve(answer.value)
      else if (/^READONLY/.test(answer.value.message)) { // a primary that is none any more: ask again where it is
        this.waiting.unshift(c)
        return this.socket.destroy()
      } else c.reject(answer.value)
    }
  }
}

// parse reads one answer at a place; null: it is not whole yet.
function parse (text, at) {
  const line = text.indexOf('\r\n', at)
  if (line < 0) return null
  const kind = String.fromCharCode(text[at])
  const rest = text.toString('utf8', at + 1, line)
  let end = line + 2
  if (kind === '$' && rest !== '-1') {
    const to = end + Number(rest)
    return text.length < to + 2 ? null : { value: text.toString('utf8', end, to), end: to + 2 }
  }
  if (kind === '*' && rest !== '-1') {
    const value = []
    for (let i = 0; i < Number(rest); i++) {
      const one = parse(text, end)
      if (!one) return null
      value.push(one.value)
      end = one.end
    }
    return { value, end }
  }
  return { value: { '-': new Error(rest), ':': Number(rest), '+': rest }[kind] ?? null, end }
}

const address = text => ({ host: text.slice(0, text.lastIndexOf(':')), port: Number(text.slice(text.lastIndexOf(':') + 1)) })

// open connects to a Redis, or to the one that a Sentinel names.
function open (module, at, sentinel) {
  if (module) {
    const Redis = require(module)
    const redis = sentinel ? new Redis({ sentinels: [address(at)], name: sentinel }) : new Redis(address(at))
    redis.on('error', () => {})
    return redis
  }
  return new Client(async () => {
    if (!sentinel) return address(at)
    const asked = new Client(async () => address(at))
    const late = setTimeout(() => asked.socket?.destroy(), 1000)
    try {
      const [host, port] = await asked.call('SENTINEL', 'get-master-addr-by-name', sentinel)
      return { host, port: Number(port) }
    } finally {
      clearTimeout(late)
      asked.connect = () => {} // it does not come back
      asked.socket?.destroy()
    }
  })
}

// Lock is one try to get a key and, where it was granted, the hold: extended by itself until it is released or lost.
class Lock {
  constructor (me, key) {
    Object.assign(this, { me, key, token: randomUUID(), until: 0, lost: new AbortController() })
    this.gone = new Promise(resolve => this.lost.signal.addEventListener('abort', resolve))
  }

  get ttl () { return TTL * 1000 * this.me.scale }

  async acquire () {
    const asked = now()
    this.fence = await this.me.redis.call('EVAL', ACQUIRE, 1, this.key, this.token, this.ttl)
    if (this.fence === 0) return false
    this.until = asked + this.ttl
    if (now() >= this.until) { // it was on its way for as long as it lasts
      this.until = Infinity // the lease began when the store answered: give it back
      await this.release()
      return false
    }
    this.me.log('INFO', 'lock acquired', { key: this.key, token: this.token })
    this.keep()
    return true
  }

  keep () {
    if (this.me.bug === 'never-renews') return
    clearTimeout(this.end)
    this.end = setTimeout(() => this.lose('deadline'), this.until - now())
    this.renewal = setTimeout(() => this.extend(), this.until - THRESHOLD * 1000 * this.me.scale - now())
  }

  async extend () {
    const asked = now()
    const answer = await this.me.redis.call('EVAL', EXTEND, 1, this.key, this.token, this.ttl).catch(() => null)
    if (this.over || this.lost.signal.aborted) return
    if (answer === 1) {
      this.until = asked + this.ttl
      this.keep()
    } else if (answer === 0) {
      this.notOwned('extend')
      this.lose('not owned')
    } else this.renewal = setTimeout(() => this.extend(), 20) // nobody knows
  }

  lose (why) {
    if (this.over || this.lost.signal.aborted) return
    this.me.log('ERROR', 'lock lost', { key: this.key, why })
    this.me.lost++
    this.lost.abort()
  }

  notOwned (operation) {
    this.me.log('WARN', 'lock not owned', { key: this.key, operation })
  }

  // held is to be asked before every effect.
  held () {
    if (this.me.bug === 'no-stop' || this.me.bug === 'never-renews') return true
    if (now() >= this.until) this.lose('deadline')
    return !this.lost.signal.aborted
  }

  // rest waits, and ends at once when the lock is lost.
  rest (ms) {
    if (!this.held()) return
    return Promise.race([sleep(ms), ...(this.me.bug === 'no-stop' ? [] : [this.gone])])
  }

  async release () {
    clearTimeout(this.end)
    clearTimeout(this.renewal)
    const left = !this.held() // also where it woke up just now: the key may be another's
    this.over = true
    if (!left && await this.me.redis.call('EVAL', RELEASE, 1, this.key, this.token) === 0) this.notOwned('release')
  }
}

class Scheduler {
  constructor (o) {
    Object.assign(this, { name: o.name, scale: Number(o.scale), bug: o.bug ?? 'none', leads: null, lost: 0, done: 0, acks: [] })
    this.redis = open(o.ioredis, o.sentinel ?? o.redis, o.sentinel && 'locks')
    this.ledger = o.ledger ? open(o.ioredis, o.ledger) : this.redis
    const trusts = this.bug === 'no-stop' || this.bug === 'never-renews' // it takes its own word for its being the holder
    this.compares = trusts ? 'nothing' : o.ledger ? 'fence' : 'value'
  }

  log (level, message, fields = {}) {
    fs.writeSync(1, [new Date().toISOString(), level, message, ...Object.entries(fields).map(([k, v]) => `${k}=${v}`)].join(' ') + '\n')
  }

  // write is one effect. false: the lock is lost.
  async write (lock, status, subject, terminal = false) {
    if (!lock.held()) return false
    const op = randomUUID()
    const effect = { ...subject, status, op_id: op, worker: this.name, token: lock.token, lock_key: lock.key, fence: lock.fence }
    const stream = subject.job_id ? 'cordum:jobs:log' : 'cordum:ticks:' + subject.loop
    const answer = await this.ledger.call('EVAL', APPEND, 5, 'cordum:ops', 'cordum:finished', stream, lock.key, 'cordum:fences', op, terminal ? 1 : 0,
      subject.job_id ?? subject.loop, this.compares, lock.token, lock.fence, this.bug === 'finishes-twice' ? 0 : 1, ...Object.entries(effect).flat())
    if (answer !== -1) return true
    lock.notOwned('write')
    lock.lose('not owned')
    return false
  }

  async work () {
    while (!this.stopping) {
      try {
        const [, again] = await this.redis.call('XAUTOCLAIM', JOBS, GROUP, this.name, REDELIVER * 1000 * this.scale, '0-0', 'COUNT', 1)
        const fresh = again.length === 0 && await this.redis.call('XREADGROUP', 'GROUP', GROUP, this.name, 'COUNT', 1, 'STREAMS', JOBS, '>')
        const entries = again.length > 0 ? again : fresh ? fresh[0][1] : []
        for (const [entry, fields] of entries) {
          const due = fields ? fields.indexOf('due') : -1
          if (due >= 0 && Date.now() < Number(fields[due + 1])) continue // it comes again
          if (fields) await this.job(entry, fields[fields.indexOf('id') + 1], fields[fields.indexOf('seconds') + 1] * 1000 * this.scale)
        }
        if (entries.length === 0) await sleep(40)
      } catch (e) {
        this.log('WARN', 'no jobs', { error: e.message })
        await sleep(50)
      }
    }
  }

  async job (entry, job, takes) {
    const lock = new Lock(this, JOB_LOCK + job)
    if (!await lock.acquire()) return // it comes again
    try {
      if (this.bug !== 'finishes-twice' && await this.ledger.call('SISMEMBER', 'cordum:finished', job) === 1) {
        this.acks.push(entry)
      } else if (await this.write(lock, 'RUNNING', { job_id: job })) {
        await lock.rest(takes)
        if (!this.stopping && await this.write(lock, 'SUCCEEDED', { job_id: job }, true)) {
          this.done++
          this.acks.push(entry)
        }
      }
    } finally {
      await lock.release()
    }
  }

  // acknowledge tells the stream every so often which jobs are done. So many of them come again, and are looked up.
  async acknowledge () {
    while (!this.stopping) {
      await sleep(ACK_EVERY * 1000 * this.scale)
      const done = this.acks.splice(0)
      if (done.length === 0) continue
      try {
        await this.redis.call('XACK', JOBS, GROUP, ...done)
        await this.redis.call('XDEL', JOBS, ...done)
      } catch (e) { this.acks.push(...done) }
    }
  }

  async lead () {
    while (!this.stopping) {
      try {
        const lock = new Lock(this, LOOP_LOCK)
        if (await lock.acquire()) {
          this.leads = lock
          while (!this.stopping && await this.write(lock, 'TICK', { loop: LOOP })) await lock.rest(TICK * 1000 * this.scale)
          this.leads = null
          await lock.release()
        }
      } catch (e) {
        this.leads = null
        this.log('WARN', 'tick failed', { loop: LOOP, error: e.message })
      }
      await sleep(TICK * 1000 * this.scale * (0.5 + Math.random()))
    }
  }

  metrics () {
    return `# TYPE jobs_done_total counter\njobs_done_total ${this.done}\n# TYPE leader gauge\nleader{loop="${LOOP}"} ${this.leads?.held() ? 1 : 0}\n# TYPE locks_lost_total counter\nlocks_lost_total ${this.lost}\n`
  }

  async run (port, workers) {
    http.createServer((request, answer) => {
      answer.writeHead(request.url === '/metrics' ? 200 : 404, { 'Content-Type': 'text/plain; version=0.0.4' })
      answer.end(this.metrics())
    }).listen(port, '127.0.0.1')
    await this.redis.call('XGROUP', 'CREATE', JOBS, GROUP, '0', 'MKSTREAM').catch(() => {}) // it is there
    const tasks = [...Array.from({ length: workers }, () => this.work()), this.lead(), this.acknowledge()]
    this.log('INFO', 'ready', { name: this.name, port, bug: this.bug })
    process.on('SIGTERM', () => {
      this.stopping = true
      Promise.race([Promise.all(tasks), sleep(3000)]).then(() => process.exit(0))
    })
  }
}

const words = process.argv.slice(2)
const options = { scale: '1', workers: '4', redis: '127.0.0.1:6379' }
for (let i = 0; i < words.length; i += 2) options[words[i].replace(/^--/, '')] = words[i + 1]
if (words.includes('--help') || (options.bug && !BUGS[options.bug])) {
  console.log(`scheduler.js --name NAME --port PORT [--redis HOST:PORT | --sentinel HOST:PORT] [--ledger HOST:PORT] [--scale N] [--ioredis MODULE] [--bug NAME]\nbugs:\n${Object.entries(BUGS).map(([k, v]) => `${k}: ${v}`).join('\n')}`)
  process.exit(words.includes('--help') ? 0 : 2)
}
process.on('unhandledRejection', e => { throw e }) // what goes on alone would leave its lock behind in silence
new Scheduler(options).run(Number(options.port), Number(options.workers))
