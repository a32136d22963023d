// bullmq: each replica adds the jobs that it is offered and processes what its Worker takes. The lock of a job is the library's business: no
// claim is made about it, and what counts is what the ledger saw.
'use strict'
const { Queue, Worker } = require('bullmq')

exports.of = leases => (options, policy) => {
  const { keyPrefix, ...connection } = options
  const ttl = leases * policy.ttl / 1e6
  const prefix = keyPrefix + 'bull'
  const queue = new Queue('jobs', { connection, prefix })
  return {
    ping: () => queue.waitUntilReady(),
    // lockDuration and stalledInterval are 30 s by default: in the same proportion.
    process: job => new Worker('jobs', async j => job(j.data), {
      connection: { ...connection, maxRetriesPerRequest: null }, prefix, lockDuration: ttl, stalledInterval: ttl, concurrency: 10
    }).on('error', () => {}),
    offer: o => queue.add('job', o, { jobId: o.job })
  }
}

exports.open = exports.of(1)
