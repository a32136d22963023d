package redisstore

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
)

var (
	//go:embed acquire.lua
	acquireText string
	//go:embed renew.lua
	renewText string
	//go:embed renewmany.lua
	renewManyText string
	//go:embed many.lua
	manyText string
	//go:embed release.lua
	releaseText string
	//go:embed stand.lua
	standText string
	//go:embed quit.lua
	quitText string
	//go:embed pass.lua
	passText string
)

// script is one script, for both ways to send it.
type script struct {
	*redis.Script
	text, hash string
}

func newScript(text string) *script {
	s := redis.NewScript(text)
	return &script{Script: s, text: text, hash: s.Hash()}
}

// scripts are the lock's, by what they do.
type scripts struct{ acquire, renew, renewMany, release, many, stand, quit *script }

func newScripts() scripts {
	return scripts{
		acquire: newScript(acquireText + "return acquire(nil, KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])"),
		release: newScript(passText + releaseText + "return release(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3])"),
		many:    newScript(passText + acquireText + releaseText + manyText),
		renew:   newScript(renewText), renewMany: newScript(renewManyText),
		stand: newScript(passText + standText), quit: newScript(passText + quitText),
	}
}

// The line's own times, in ms.
const (
	turnWindow = 500    // a free lock is kept so long for whose turn it is: a dead waiter costs the line this much
	lineKeep   = 60_000 // after the last sign of a waiter
)

// keys are a lock's, all in one slot of a cluster.
type keys struct{ lock, fence, turn, line string }

// keysOf names what is kept beside a lock: a key without a {tag} hashes whole, hence the whole key becomes the tag. (A key with a
// closing brace outside a tag cannot become one; a cluster then refuses the script, CROSSSLOT.)
func keysOf(lock string) keys {
	left, right := "{", "}"
	if open := strings.IndexByte(lock, '{'); open >= 0 {
		if strings.IndexByte(lock[open+1:], '}') > 0 {
			left, right = "", ""
		}
	}
	base := len(left) + len(lock) + len(right)
	all := left + lock + right + ":fence" + left + lock + right + ":turn" + left + lock + right + ":line" // one allocation for three names
	return keys{lock: lock, fence: all[:base+6], turn: all[base+6 : 2*base+11], line: all[2*base+11:]}
}

// parseGrant reads the reply of acquire.lua and stand.lua.
func parseGrant(reply any) (lockcore.Grant, error) {
	switch r := reply.(type) {
	case string:
		fence, clock, apart := strings.Cut(r, " ")
		n, err := strconv.ParseInt(fence, 10, 64)
		micros := n
		if apart && err == nil {
			micros, err = strconv.ParseInt(clock, 10, 64)
		}
		if err != nil {
			return lockcore.Grant{}, fmt.Errorf("read acquire reply %q: %w", r, err)
		}
		return lockcore.Grant{Fence: n, Server: time.UnixMicro(micros)}, nil
	case []any:
		if len(r) == 2 {
			holder, _ := r[0].(string)
			pttl, _ := r[1].(int64)
			return lockcore.Grant{}, &lockcore.HeldError{Holder: lockcore.Fingerprint(holder), PTTL: time.Duration(pttl) * time.Millisecond}
		}
	case int64:
		return lockcore.Grant{}, errors.New("acquire: the key carries this token, but its fence is no longer kept")
	}
	return lockcore.Grant{}, fmt.Errorf("read acquire reply %v: unexpected shape", reply)
}

// parseOwned reads the reply of the scripts that compare the token first.
func parseOwned(op string, reply any) error {
	switch r := reply.(type) {
	case int64:
		if r == 1 {
			return nil
		}
		return &lockcore.NotOwnedError{}
	case string:
		return &lockcore.NotOwnedError{Other: true, Holder: lockcore.Fingerprint(r)}
	}
	return fmt.Errorf("read %s reply %v: unexpected shape", op, reply)
}

// millis rounds up: a lease may be longer than what was asked for, never shorter.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// fenceTTL is how long a fence outlives its epoch's grant. It need not be kept for ever, because the server's microseconds
// take over; it must outlive the lease, so that a lost grant can be read back.
func fenceTTL(ttl time.Duration) time.Duration { return max(24*time.Hour, 10*ttl) }
