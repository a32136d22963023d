// redis-semaphore 5.5.0 without onLockLost.
'use strict'
exports.open = require('./redis-semaphore').of(require('redis-semaphore-5.5.0'), false)
