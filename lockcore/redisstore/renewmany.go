package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
)

// renewChunk is how many leases one script extends: some 100 microseconds of the server's.
const renewChunk = 64

// RenewMany implements lockcore.ManyRenewer, in one pipeline, on a connection that nothing else uses meanwhile. On one server each
// script extends renewChunk leases; in a cluster, where its keys would have to share a slot, one.
func (s *Batched) RenewMany(ctx context.Context, ttl time.Duration, renewals []lockcore.Renewal) {
	if err := callable(ctx, ttl); err != nil {
		for i := range renewals {
			renewals[i].Err = err
		}
		return
	}
	size := 1
	if s.single {
		size = renewChunk
	}
	chunks := make([]chunk, 0, (len(renewals)+size-1)/size)
	for rest := renewals; len(rest) > 0; {
		n := min(size, len(rest))
		chunks = append(chunks, s.newChunk(ttl, rest[:n]))
		rest = rest[n:]
	}
	p := s.redis.Pipeline()
	for i := range chunks {
		chunks[i].queue(ctx, p)
	}
	_, _ = p.Exec(ctx) // each command has its own error
	again := false
	for i := range chunks {
		if isUnloaded(chunks[i].cmd.Err()) {
			chunks[i].args[0], chunks[i].args[1] = "eval", s.do.renewMany.text
			chunks[i].queue(ctx, p)
			again = true
		}
	}
	if again {
		_, _ = p.Exec(ctx)
	}
	for i := range chunks {
		chunks[i].answer()
	}
}

// chunk is the renewals of one script call.
type chunk struct {
	renewals []lockcore.Renewal
	args     []any
	cmd      *redis.Cmd
}

func (s *Batched) newChunk(ttl time.Duration, renewals []lockcore.Renewal) chunk {
	n := len(renewals)
	args := make([]any, 2*n+4)
	args[0], args[1], args[2], args[2*n+3] = "evalsha", s.do.renewMany.hash, n, millis(ttl)
	for i := range renewals {
		args[3+i], args[3+n+i] = &renewals[i].Key, &renewals[i].Token // pointers: nothing is boxed
		if s.prefix != "" {
			args[3+i] = s.prefix + renewals[i].Key
		}
	}
	return chunk{renewals: renewals, args: args}
}

func (c *chunk) queue(ctx context.Context, p redis.Pipeliner) {
	c.cmd = redis.NewCmd(ctx, c.args...)
	_ = p.Process(ctx, c.cmd)
}

// answer gives each renewal what became of it.
func (c *chunk) answer() {
	reply, err := c.cmd.Result()
	each, _ := reply.([]any)
	switch {
	case err != nil:
		err = wrap("renew", err)
	case reply == int64(len(c.renewals)):
	case len(each) != len(c.renewals):
		err = fmt.Errorf("read renew reply %v: unexpected shape", reply)
	}
	for i := range c.renewals {
		c.renewals[i].Err = err
		if err == nil && each != nil {
			c.renewals[i].Err = renewed(each[i])
		}
	}
}

func renewed(reply any) error {
	if reply == int64(-1) {
		return errors.New("renew: the key is no string")
	}
	return parseOwned("renew", reply)
}

func isUnloaded(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }
