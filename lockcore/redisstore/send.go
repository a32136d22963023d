package redisstore

import (
	"context"
	"fmt"
	"slices"
)

// The kinds of many.lua.
const (
	kindAcquire = 'a'
	kindRelease = 'r'
)

// maxTogether is how many calls one script makes: some 200 microseconds of the server's.
const maxTogether = 64

// group is calls that one run of many.lua makes.
type group struct {
	sent
	calls []*call
	lease *call // an acquire of it: all of them ask for its TTL
}

// send makes the calls in one round trip.
func (l *lane) send(ctx context.Context, batch []*call) {
	groups, alone := l.split(batch)
	roundTrip(ctx, l.redis.Pipeline(), len(groups)+len(alone), func(i int) *sent {
		if i < len(groups) {
			return &groups[i].sent
		}
		return &alone[i-len(groups)].sent
	})
	for i := range groups {
		groups[i].settle()
	}
	for _, c := range alone {
		c.settle()
	}
}

// split tells the calls that can go together, those of one TTL, from those that go by themselves.
func (l *lane) split(batch []*call) (groups []group, alone []*call) {
	if l.many == nil {
		return nil, batch
	}
	for _, c := range batch {
		if c.kind == 0 {
			alone = append(alone, c)
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool { return len(g.calls) < maxTogether && g.takes(c) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{calls: make([]*call, 0, min(len(batch), maxTogether))})
		}
		groups[i].add(c)
	}
	for i := range groups {
		groups[i].fill(l.many)
	}
	return groups, alone
}

// takes reports whether c can go with the group: acquires of one script ask for the same TTL.
func (g *group) takes(c *call) bool {
	return c.kind != kindAcquire || g.lease == nil || g.lease.nums[0] == c.nums[0]
}

func (g *group) add(c *call) {
	if c.kind == kindAcquire && g.lease == nil {
		g.lease = c
	}
	g.calls = append(g.calls, c)
}

// fill gives it its command: pointers into the calls, so that nothing is boxed.
func (g *group) fill(s *script) {
	n := len(g.calls)
	args := append(make([]any, 0, 3*n+8), "evalsha", &s.hash, 2*n)
	kinds := make([]byte, n)
	for i, c := range g.calls {
		kinds[i] = c.kind
		args = append(args, &c.texts[0], &c.texts[1]) // the lock, and its fence or its turn
	}
	args = append(args, kinds)
	if g.lease == nil {
		args = append(args, 0, 0)
	} else {
		args = append(args, &g.lease.nums[0], &g.lease.nums[1])
	}
	args = append(args, turnWindow, lineKeep)
	for _, c := range g.calls {
		args = append(args, &c.texts[c.nkeys]) // the token
	}
	g.script, g.args = s, args
}

// settle gives each call its reply.
func (g *group) settle() {
	reply, err := g.cmd.Result()
	each, _ := reply.([]any)
	if err == nil && len(each) != len(g.calls) {
		err = fmt.Errorf("read reply %v: unexpected shape", reply)
	}
	for i, c := range g.calls {
		if c.err = err; err != nil {
			continue
		}
		if failed, ok := each[i].([]any); ok && len(failed) == 1 {
			c.err = scriptError(fmt.Sprint(failed[0]))
			continue
		}
		c.reply = each[i]
	}
}

// scriptError is the error reply of one script among many. It is a redis.Error.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as the server's.
func (scriptError) RedisError() {}
