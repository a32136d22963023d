// redlock 3.1.2: as redlock 4.
'use strict'
exports.open = require('./redlock4').of(require('redlock3'))
