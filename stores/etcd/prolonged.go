package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/etcdservers"
)

const leaseAsked = 100 * time.Millisecond // between two questions for what is left of a lease, which is told in whole seconds

// leaseAnswer is what the servers said of a lease at an instant in at.
type leaseAnswer struct {
	key           string
	of            *rival
	lease         clientv3.LeaseID // its own when it was asked for
	at            history.Span
	left, granted int64 // whole seconds
}

// askLeases asks what is left of the leases of those who hold locks, now and then: a watch does not tell that one was prolonged.
func (p *Watch) askLeases(ctx context.Context) []leaseAnswer {
	var all []leaseAnswer
	p.mu.Lock()
	now := p.clock()
	for key := range p.locks {
		if r := p.holder(key); r != nil && r.lease != clientv3.NoLease && now-r.asked >= int64(leaseAsked) {
			all = append(all, leaseAnswer{key: key, of: r, lease: r.lease})
		}
	}
	p.mu.Unlock()
	answered := all[:0]
	for _, a := range all {
		a.at.From = p.clock()
		lease, err := etcdservers.First(ctx, p.clients, func(ctx context.Context, c *clientv3.Client) (*clientv3.LeaseTimeToLiveResponse, error) {
			return c.TimeToLive(ctx, a.lease)
		})
		if a.at.To = p.clock(); err == nil && lease.TTL >= 0 { // else its end is told by the watch
			a.left, a.granted = lease.TTL, lease.GrantedTTL
			answered = append(answered, a)
		}
	}
	return answered
}

// showLeases reports which leases were seen to be prolonged. It is called when the watches have told of a revision that was read after the
// answers: a lease may live on without the key that it was for, and whoever still holds that key has held it all the time.
func (p *Watch) showLeases(answers []leaseAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range answers {
		r := a.of
		if p.holder(a.key) != r || r.lease != a.lease {
			continue
		}
		fresh := r.granted == 0
		prolonged := !fresh && (a.left > r.left || a.left == r.left && a.at.From-r.asked >= int64(time.Second))
		if fresh || prolonged || a.left < r.left {
			r.left, r.asked, r.granted = a.left, a.at.To, time.Duration(a.granted)*time.Second
		}
		if fresh || prolonged {
			l := p.lock(a.key)
			p.report(l, stateOfRival(r), a.at, l.At)
		}
	}
}
