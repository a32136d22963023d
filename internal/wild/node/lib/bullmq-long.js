// bullmq with a lockDuration that is ten times as long.
'use strict'
exports.open = require('./bullmq').of(10)
