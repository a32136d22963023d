// redis-semaphore without onLockLost, as in the first example of its README.
'use strict'
exports.open = require('./redis-semaphore').of(require('redis-semaphore'), false)
