package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// call is one script call on its way through a lane. Its caller owns it until it is submitted, and again when done has received.
type call struct {
	sent             // its args point into the fields below, so that nothing is boxed
	texts  [6]string // keys, then arguments
	nums   [5]int64
	nkeys  int
	ntexts int
	nnums  int
	until  time.Time
	kind   byte // in many.lua; 0 = it goes by itself
	state  atomic.Int32
	reply  any
	err    error
	done   chan struct{}
}

// The states of a call that is waited for.
const (
	waiting   int32 = iota
	taken           // it is being written, or was
	withdrawn       // its caller has gone, and it will not be written
)

var callPool = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

func newCall(s *script, keys ...string) *call {
	c := callPool.Get().(*call)
	c.script, c.kind, c.nkeys, c.ntexts, c.nnums = s, 0, len(keys), 0, 0
	c.state.Store(waiting)
	c.args = append(c.args[:0], "evalsha", &s.hash, &c.nkeys)
	for _, k := range keys {
		c.text(k)
	}
	return c
}

// text adds a key or an argument.
func (c *call) text(s string) {
	c.texts[c.ntexts] = s
	c.args = append(c.args, &c.texts[c.ntexts])
	c.ntexts++
}

func (c *call) num(n int64) {
	c.nums[c.nnums] = n
	c.args = append(c.args, &c.nums[c.nnums])
	c.nnums++
}

// alone makes the call by itself.
func (c *call) alone(ctx context.Context, p processor) {
	_ = p.Process(ctx, c.command(ctx))
	if c.unloaded() {
		_ = p.Process(ctx, c.command(ctx))
	}
	c.settle()
}

// settle takes the command's reply.
func (c *call) settle() { c.reply, c.err = c.cmd.Result() }

// result gives the reply, and the call back.
func (c *call) result() (any, error) {
	reply, err := c.reply, c.err
	c.script, c.cmd, c.reply, c.err, c.until = nil, nil, nil, nil, time.Time{}
	callPool.Put(c)
	return reply, err
}
