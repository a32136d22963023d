package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
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
	calls []*call
	args  []any
	cmd   *redis.Cmd
}

// send makes the calls in one round trip; a second one repeats what needed a script that the server did not know.
func (l *lane) send(ctx context.Context, batch []*call) {
	p := l.redis.Pipeline()
	groups, alone := l.split(batch)
	for i := range groups {
		groups[i].queue(ctx, p)
	}
	for _, c := range alone {
		_ = p.Process(ctx, c.command(ctx))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	for i := range groups {
		if g := &groups[i]; isUnloaded(g.cmd.Err()) {
			g.args[0], g.args[1] = "eval", l.many.text
			g.queue(ctx, p)
		}
	}
	for _, c := range alone {
		if c.unloaded() {
			_ = p.Process(ctx, c.command(ctx))
		}
	}
	if p.Len() > 0 {
		_, _ = p.Exec(ctx)
	}
	for i := range groups {
		groups[i].settle()
	}
	for _, c := range alone {
		c.settle()
	}
}

// split tells the calls that can go together from those that go by themselves.
func (l *lane) split(batch []*call) (groups []group, alone []*call) {
	var together []*call
	for _, c := range batch {
		if l.many != nil && c.kind != 0 {
			together = append(together, c)
		} else {
			alone = append(alone, c)
		}
	}
	for len(together) > 0 {
		n := min(len(together), maxTogether)
		groups = append(groups, group{calls: together[:n], args: manyArgs(l.many, together[:n])})
		together = together[n:]
	}
	return groups, alone
}

// manyArgs is the command that makes the calls: pointers into them, so that nothing is boxed.
func manyArgs(s *script, calls []*call) []any {
	args := append(make([]any, 0, 6*len(calls)+4), "evalsha", &s.hash, nil)
	kinds := make([]byte, len(calls))
	for i, c := range calls {
		kinds[i] = c.kind
		args = append(args, c.args[3:3+c.nkeys]...)
	}
	args[2] = len(args) - 3
	args = append(args, kinds)
	for _, c := range calls {
		args = append(args, c.args[3+c.nkeys:]...)
	}
	return args
}

func (g *group) queue(ctx context.Context, p redis.Pipeliner) {
	g.cmd = redis.NewCmd(ctx, g.args...)
	_ = p.Process(ctx, once{g.cmd})
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
