// redlock 5 beta on a client that waits 300 ms for an answer (commandTimeout of ioredis; none by default).
'use strict'
const { using } = require('../using')
const open = using(require('redlock5'))
exports.open = (options, policy) => open({ ...options, commandTimeout: 300 }, policy)
