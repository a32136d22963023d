package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/stores"
)

// attempt is a command that a run will use, in a form that changes nothing: rights, memory and the server's part are looked at before its
// words are.
type attempt struct {
	command string // as a rule of an ACL names it
	key     string // "" = none
	words   []any
}

// ErrNotTold says that a server does not tell what it would let its user do.
var ErrNotTold = errors.New("the server does not tell what it would allow (ACL DRYRUN, since Redis 7)")

// Rights finds out whether the commands that a run needs would be done, on the keys on which it needs them: those of locks are only read.
// The error says which one is refused, and what would let it. Nothing is written: a command that writes is tried in a form that no server
// can do or, with asked, not even that: the server is asked, and ErrNotTold is its silence.
func Rights(ctx context.Context, r experiments.Redis, locks []string, asked bool) error {
	c, w, err := reach(r)
	if err != nil {
		return err
	}
	defer c.Close()
	own := "lockdrill:" + time.Now().UTC().Format("20060102T150405.000Z") + ":rights" // as keys of runs are called; it is not there
	all := []attempt{
		{"info", "", []any{"info", "server"}},
		{"ping", "", []any{"ping"}},
		{"time", "", []any{"time"}},
		{"scan", "", []any{"scan", 0, "match", own, "count", 1}},
		{"del", own, []any{"del", own}},
		{"unlink", own, []any{"unlink", own}},
		{"exists", own, []any{"exists", own}},
		{"eval", own, []any{"eval", "return redis.call('del', KEYS[1])", 1, own}},
	}
	if slices.Contains(r.Allow, string(fault.StoreFill)) {
		all = append(all, attempt{"config|get", "", []any{"config", "get", "maxmemory"}}, attempt{"config|set", "", []any{"config", "set", "maxmemory", "none"}}) // which is no number
	}
	for _, key := range []string{own, stores.TurnKey, stores.OpenKey} {
		all = append(all, attempt{"get", key, []any{"get", key}}, attempt{"set", key, []any{"set", key, "", "nx", "xx"}}, // which no server can do
			attempt{"eval", key, []any{"eval", "return redis.call('get', KEYS[1])", 1, key}})
	}
	for _, key := range locks {
		all = append(all, attempt{"get", key, []any{"get", key}}, attempt{"pttl", key, []any{"pttl", key}})
		look := attempt{"eval_ro", key, []any{"eval_ro", "return redis.call('pttl', KEYS[1])", 1, key}}
		if unknown(c.Do(ctx, look.words...).Err()) { // before 7
			look.command, look.words[0] = "eval", "eval"
		}
		all = append(all, look)
	}
	for _, key := range locks {
		if why := noLock(ctx, c, key); why != "" {
			return fmt.Errorf("%s: key %s %s", target(w), key, why)
		}
	}
	user := ""
	if asked {
		if user, err = c.Do(ctx, "acl", "whoami").Text(); err != nil {
			return ErrNotTold
		}
		info, err := c.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "role:slave") {
			return fmt.Errorf("%s: %s", target(w), noWrites("all commands that write"))
		}
	}
	for _, a := range all {
		why := ""
		if !asked || a.reads() {
			why = a.refused(c.Do(ctx, a.words...).Err())
		} else if answer, err := c.Do(ctx, append([]any{"acl", "dryrun", user}, a.words...)...).Text(); err != nil {
			return ErrNotTold
		} else if answer != "OK" {
			why = a.forbidden()
		}
		if why != "" {
			return fmt.Errorf("%s: %s", target(w), why)
		}
	}
	return nil
}

// reads reports a command that can be sent as it is.
func (a *attempt) reads() bool {
	return slices.Contains([]string{"get", "pttl", "eval_ro", "info", "ping", "time"}, a.command)
}

const mostFields = 16 // of a hash that looks read as a lock

// noLock says why what stands under a key now cannot be read as a lock; "" = it can, or nothing does, or the server does not tell.
func noLock(ctx context.Context, c redis.UniversalClient, key string) string {
	kind, err := c.Type(ctx, key).Result()
	if err != nil {
		return ""
	}
	switch kind {
	case "none", "string":
		return ""
	case "hash":
		if fields, err := c.HLen(ctx, key).Result(); err == nil && fields > mostFields {
			return fmt.Sprintf("is a hash of %d fields, which is no lock", fields)
		}
		return ""
	}
	return "is a " + kind + ", which is no lock"
}

// refused says why the command cannot be used; "" = it can, as far as can be told.
func (a *attempt) refused(err error) string {
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return ""
	case redis.IsPermissionError(err), inScript(err):
		return a.forbidden()
	case redis.IsReadOnlyError(err):
		return noWrites(a.what())
	case redis.IsOOMError(err), redis.IsClusterDownError(err), redis.IsNoReplicasError(err), redis.IsMasterDownError(err), redis.IsLoadingError(err):
		return fmt.Sprintf("it takes no writes now (%s): %v", a.what(), err)
	case unknown(err):
		return fmt.Sprintf("it has no %s, which the run needs", a.what())
	}
	return ""
}

// what names the command, and the key where there is one.
func (a *attempt) what() string {
	if a.key == "" {
		return strings.ToUpper(a.command)
	}
	return strings.ToUpper(a.command) + " on " + a.key
}

func (a *attempt) forbidden() string {
	grant := "+" + a.command
	if a.key != "" {
		grant += " ~" + patternOf(a.key)
	}
	return fmt.Sprintf("its user may not use %s, which the run needs: let the user have %s (ACL SETUSER)", a.what(), grant)
}

func noWrites(what string) string {
	return fmt.Sprintf("it is a replica and takes no writes (%s): name its primary, or its Sentinels", what)
}

// inScript reports a right that a script lacks, for which servers have no code.
func inScript(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && (strings.Contains(said.Error(), "can't run this command") || strings.Contains(said.Error(), "can't access at least one of the keys"))
}

// unknown reports a server that has no such command.
func unknown(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(said.Error(), "unknown command")
}

// patternOf is how an ACL names the keys that a run has beside this one.
func patternOf(key string) string {
	if strings.HasPrefix(key, "lockdrill:") {
		return "lockdrill:*"
	}
	return key
}
