// Package probes looks at what a drill leaves in its stores, the lock keys and the ledger, and at what its replicas and others
// count. What they report is evidence, as against the claims of replicas.
//
// A probe makes one look at a time and knows neither schedule nor clock: its caller stamps the bracket of the look and gets
// the events for it. Leases alone, which are told of changes between looks, have the clock of their looks. Probes have
// connections of their own that never lead through a proxy, and they never write.
// The one invariant: a state or an entry that was not shown is never reported, and one that was is reported with a bracket
// that surely contains its beginning.
package probes

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockdrill/lockdrill/internal/endpoint"
)

// newClient is a probe's own connection: no retries (a late answer would widen the bracket unseen), deadlines that hold.
func newClient(o *redis.Options) *redis.Client {
	o.Protocol, o.DisableIdentity, o.ContextTimeoutEnabled = 2, true, true
	o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout = -1, 1, time.Second, 2*time.Second
	// Two are used, one for looks and one for Holder. go-redis dials only once a second after PoolSize refusals in a row, which
	// would keep the probe blind after its store has come back.
	o.PoolSize = 64
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o)
}

// Dial is newClient for sources beside the probes; o stays as it is.
func Dial(o *redis.Options) *redis.Client {
	own := *o
	return newClient(&own)
}

// DialAll is Dial for a server, or, where it is one of a cluster, for all of that.
func DialAll(o *redis.Options, cluster bool) redis.UniversalClient {
	if !cluster {
		return Dial(o)
	}
	return endpoint.Cluster(o, 2*time.Second)
}

// maxText bounds what a history keeps of a text that others wrote.
const maxText = 200

// cut shortens such a text.
func cut(s string) string {
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText])
	}
	return s
}
