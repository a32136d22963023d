#!/usr/bin/env node
// A lockdrill worker whose lock is a library of npm: `worker.js LIBRARY`, LIBRARY being a file of ./lib. It knows leader loops
// (renewed and explicit). The library is used at its defaults and as its documents show; this file only says each call before it is made.
//
// lib/NAME.js exports open(redis options, policy) and gives one object for the process; its hold(key, token, claims) is one acquisition:
//   acquire()  true: granted; false: held by another; an error: nobody knows
//   release()  true: released; false: it was not ours; an error: nobody knows
//   extend()   as release; a library that extends by itself has none, and wraps what it sends in claims.renew(...)
//   expired()  of a lock whose extend refuses without a call
//   left()     ns of lease, of a lock that knows it; undo() gives an unclear acquire back; fence, where it has one
// and claims.lost(reason) ends the work.
'use strict'
const crypto = require('crypto')
const fs = require('fs')
const readline = require('readline')
const Redis = require('ioredis')

const now = () => Number(process.hrtime.bigint()) // CLOCK_MONOTONIC, the runner's clock as well
const sleep = ms => new Promise(resolve => setTimeout(resolve, Math.max(0, ms)))
let ops = 0
let stopping = false
let me

// say writes one line at once, and returns its from: what announces a call must be out before the call is made.
function say (kind, event = {}) {
  const to = now()
  const line = { kind, from: to, to, ...event }
  if (event.from) line.to = to
  fs.writeSync(1, JSON.stringify(line) + '\n')
  return line.from
}

const op = () => `${me.incarnation}/${++ops}`

class Hold {
  constructor (lib, lock) {
    const token = crypto.randomBytes(16).toString('hex')
    this.lock = lock
    this.names = { lock: lock.name, key: lock.key, epoch: crypto.createHash('sha256').update(token).digest('hex').slice(0, 12) }
    this.isLost = false
    this.onLost = new Promise(resolve => { this.wake = resolve })
    this.lib = lib.hold(lock.key, token, { renew: call => this.call('renew', call), lost: reason => this.lose(reason) })
  }

  async call (what, make) {
    const id = op()
    const body = { attempt: 1, ...(what === 'acquire' || what === 'renew' ? { ttl: this.lock.policy.ttl } : {}) }
    const from = say(what + '.invoke', { ...this.names, op: id, call: { ...body, ...(what === 'acquire' ? { demand: true } : {}) } })
    let answer, error
    try {
      answer = await make()
    } catch (e) {
      error = e
    }
    let outcome = 'ok'
    if (error) {
      outcome = 'unknown'
      body.result = 'error'
      body.err = String(error.message || error).slice(0, 200)
    } else if (answer === false) {
      outcome = 'fail'
      body.result = what === 'acquire' ? 'held' : 'other'
    } else {
      body.result = { acquire: 'granted', renew: 'renewed' }[what] || 'released'
      if (what === 'acquire' && this.lib.fence) this.names.fence = this.lib.fence
    }
    say(what + '.return', { ...this.names, from, op: id, outcome, call: body })
    if (error) throw error
    return answer
  }

  async acquire () {
    try {
      if (!await this.call('acquire', () => this.lib.acquire())) return false
    } catch (e) {
      const until = now() + this.lock.policy.ttl
      while (this.lib.undo && now() < until) {
        try {
          await this.call('undo', () => this.lib.undo())
          break
        } catch (e) { await sleep(20) }
      }
      return false
    }
    if (this.lib.extend) this.keeper = this.keep()
    return true
  }

  // keep extends every renew_every. A failed extension ends the work, as in the documents; a lock that knows its lease asks until it is over.
  async keep () {
    const every = this.lock.policy.renew_every
    let due = now() + every
    while (!this.ended && this.check()) {
      await sleep(Math.min(due - now(), this.lib.left ? this.lib.left() : Infinity, 20e6) / 1e6)
      if (this.ended || !this.check()) return
      if (now() < due) continue
      due = now() + every
      if (this.lib.expired && this.lib.expired()) return this.lose('expired')
      let answer = null
      try { answer = await this.call('renew', () => this.lib.extend()) } catch (e) { /* nobody knows */ }
      if (!this.ended && (answer === false || (answer === null && !this.lib.left))) this.lose('not_owned')
    }
  }

  // check is asked before every effect: a lock that knows its lease ends the work in time, another one only when it is told.
  check () {
    if (this.lib.left && this.lib.left() <= 0) this.lose('deadline')
    return !this.isLost
  }

  lose (reason) {
    if (this.isLost || this.ended) return
    this.isLost = true
    for (const kind of ['fence.observed', 'abandon']) say(kind, { ...this.names, abandon: { reason } })
    this.wake()
  }

  // release is the `finally` of the documents: also after the lock was lost. A lock that knows its lease leaves a lost one alone, and asks again.
  async release () {
    this.ended = true
    if (this.lib.left) await this.keeper
    if (this.lib.left && this.isLost) return say('release.skipped', { ...this.names, call: { why: 'after_abandon' } })
    for (let i = 0; i < (this.lib.left ? 3 : 1); i++) {
      try { return await this.call('release', () => this.lib.release()) } catch (e) { /* nobody knows */ }
    }
  }

  async write (state, subject = this.lock.name, loop = 1, terminal = false) {
    const id = op()
    const { ledger, script, incarnation } = me
    const p = ledger.prefix + '{ledger}:'
    const body = { subject, state, terminal }
    const fence = this.names.fence || 0
    for (let i = 0; i < 3 && this.check(); i++) {
      const from = say('write.invoke', { ...this.names, op: id, write: body })
      let r
      try {
        r = await ledger.redis.eval(script, 4, p + 'entries', p + 'marks', p + 'subjects', p + 'answers', this.names.key, subject, loop, state, terminal ? 1 : 0,
          this.names.epoch, fence, id, incarnation, this.lock.unfenced || !fence ? 1 : 0, this.lock.strict ? 1 : 0)
      } catch (e) {
        say('write.return', { ...this.names, from, op: id, outcome: 'unknown', write: body })
        continue
      }
      say('write.return', { ...this.names, from, op: id, outcome: 'ok', write: { ...body, accepted: r[1] === 1, reason: r[2], current: r[3] } })
      return r[1] === 1
    }
    return false
  }

  // tick does one tick's work; false = the lock is no use any more.
  async tick () {
    const id = op()
    let why = 'fenced'
    say('work.enter', { ...this.names, op: id, work: { subject: this.lock.name } })
    this.begun = this.begun || await this.write('begin')
    if (this.begun && await this.write('tick')) {
      await Promise.race([sleep(this.lock.policy.loop.tick / 1e6), this.onLost])
      if (!this.isLost) why = 'done'
    }
    say('work.exit', { ...this.names, op: id, work: { subject: this.lock.name, why } })
    return why === 'done'
  }
}

// loop is a leader loop: who has the key does one tick every poll, the others ask once every poll. r1 asks first, so that a drill knows
// who waits.
async function loop (lib, lock) {
  const poll = lock.policy.loop.poll
  let hold = null
  let due = now() + (me.incarnation.startsWith('r1.') ? 0 : poll)
  const end = async () => { const h = hold; hold = null; if (h) await h.release() }
  while (!stopping) {
    if (hold && hold.isLost) await end()
    if (now() < due) {
      await Promise.race([sleep(Math.min((due - now()) / 1e6, 20)), ...(hold ? [hold.onLost] : [])])
      continue
    }
    due = Math.max(now(), due + poll) // ticks are not made up for
    if (!hold) {
      const h = new Hold(lib, lock)
      if (await h.acquire()) hold = h
    }
    if (hold && (!await hold.tick() || lock.policy.loop.mode === 'explicit')) await end()
  }
  await end()
}

// job does a job that a queue has handed to this replica, whoever was offered it.
async function job (o) {
  const lock = me.locks.find(l => l.name === o.lock)
  const w = Object.assign(Object.create(Hold.prototype), { lock, lib: {}, isLost: false, names: { lock: o.lock, key: o.key, epoch: crypto.randomBytes(6).toString('hex') } })
  const id = op()
  say('work.enter', { ...w.names, op: id, work: { subject: o.job } })
  await w.write('begin', o.job, 0)
  await sleep(o.hold / 1e6)
  await w.write('done', o.job, 0, true)
  say('work.exit', { ...w.names, op: id, work: { subject: o.job, why: 'done' } })
  say('job.ack', { lock: o.lock, key: o.key, job: { id: o.job, ack: 'done' } })
}

const loops = []
let lib

function obey (c) {
  if (c.v > 1) process.exit(2)
  if (c.cmd === 'crash') process.exit(137)
  if (c.cmd === 'stop') return stop()
  if (c.cmd === 'arm') { // it makes no faults: the shot is void
    const a = c.arm
    say('fault.reverted', { op: `${a.fault}#${a.shot}`, fault: { id: a.fault, shot: a.shot, kind: a.op === 'clock' ? 'clock' : a.op + '_failures', form: a.mode } })
  }
  if (c.cmd === 'offer' && lib.offer && !stopping) lib.offer(c.offer)
  if (c.cmd !== 'configure') return
  me = c.configure
  const at = e => { const i = e.addr.lastIndexOf(':'); return { host: e.addr.slice(0, i), port: Number(e.addr.slice(i + 1)), db: e.db || 0 } }
  me.ledger.redis = new Redis(at(me.ledger))
  lib = require('./lib/' + process.argv[2]).open({ ...at(me.store), keyPrefix: me.store.prefix }, me.locks[0].policy)
  Promise.all([lib.ping(), me.ledger.redis.ping()]).then(() => {
    say('replica.ready', { replica: { name: me.name, incarnation: me.incarnation, pid: process.pid } })
    if (lib.process) lib.process(job)
    else for (const lock of me.locks) loops.push(loop(lib, lock))
  })
}

let ending
function stop () { // what waits for a lock ends with the process
  stopping = true
  ending = ending || Promise.race([Promise.all(loops), sleep(3000)]).then(() => process.exit(0))
}

process.on('SIGTERM', stop)
readline.createInterface({ input: process.stdin }).on('line', line => obey(JSON.parse(line))).on('close', stop)
