// redlock 5 beta: using(), which extends by itself and tells by a signal (README, "Usage").
'use strict'
const { using } = require('../using')
exports.open = using(require('redlock5'))
