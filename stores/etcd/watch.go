package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/etcdservers"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores/witness"
)

const (
	restartEvery = 50 * time.Millisecond // before a watch that was cut is begun again
	beginWithin  = 5 * time.Second       // the first list of keys
)

// Watch watches the keys of locks in an etcd, with two witnesses. A watch of each server tells every change by its revision, in the order
// of all, and after it. Looks read a revision from the cluster, and are good once a watch has told everything up to it. What changed
// between two looks has its brackets from both, and nothing escapes.
//
// The lock of a key is that key itself, or the oldest of the keys below it that are named after their leases, as etcd's own Mutex and
// Election make them. The epoch of such a one is the revision that created it, of the lock's own key the token that it carries: so it is
// known also where the answer to its holder was lost.
type Watch struct {
	clients etcdservers.Servers
	prefix  string
	clock   func() int64
	life    context.Context
	stop    context.CancelFunc // ends life
	watches sync.WaitGroup

	mu      sync.Mutex
	cluster uint64                // that revisions are counted in
	era     context.Context       // of it
	over    context.CancelFunc    // ends the watches of it, and they begin anew
	locks   map[string]string     // by key, that are watched
	rivals  map[string][]*rival   // by key: who holds it and who waits, in the order of their revisions
	shown   map[string]*shownLock // by key
	told    int64                 // revision up to which all is known
	more    chan struct{}         // closed when more is told
	looked  revisionLook          // the last look that was good
	news    []history.Event
	torn    error
}

// revisionLook is a look at a revision.
type revisionLook struct {
	revision int64
	at       history.Span
}

// shownLock is what was reported of a lock.
type shownLock struct {
	witness.Track
	torn bool // changes since may have escaped
}

// NewWatch begins to watch what lies below the prefix of at. Its owner calls Close.
func NewWatch(at protocol.Endpoint, clock func() int64) (*Watch, error) {
	ctx, cancel := context.WithTimeout(context.Background(), beginWithin)
	defer cancel()
	clients, err := etcdservers.Each(at)
	if err != nil {
		return nil, err
	}
	p := &Watch{clients: clients, prefix: at.Prefix, clock: clock, locks: map[string]string{}, rivals: map[string][]*rival{}, shown: map[string]*shownLock{}, more: make(chan struct{})}
	if err := p.list(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	watching, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.life = watching
	p.era, p.over = context.WithCancel(watching)
	for _, c := range p.clients {
		p.watches.Go(func() { p.watch(watching, c) })
	}
	return p, nil
}

// Kind implements witness.Watch.
func (p *Watch) Kind() witness.Kind { return witness.KindKeys }

// Close ends the watches.
func (p *Watch) Close() error {
	if p.stop != nil {
		p.stop()
	}
	p.watches.Wait()
	return p.clients.Close()
}

// Watch adds a key of a lock that is to be told of.
func (p *Watch) Watch(lock, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locks[key] = lock
}

// list takes the keys as they are, at first and where a stretch of the watch is lost.
func (p *Watch) list(ctx context.Context) error {
	from := p.clock()
	got, err := p.clients.Get(ctx, p.prefix, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("list the keys of locks: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got.Header.ClusterId == p.cluster && got.Header.Revision < p.told { // a watch has told more
		return nil
	}
	p.cluster = got.Header.ClusterId
	before := p.rivals
	p.rivals = map[string][]*rival{}
	for _, kv := range got.Kvs {
		p.put(kv)
	}
	p.told, p.looked = got.Header.Revision, revisionLook{got.Header.Revision, history.Span{From: from, To: p.clock()}}
	for key := range before {
		p.change(key, p.looked.at)
	}
	for key := range p.rivals {
		p.change(key, p.looked.at)
	}
	p.wake()
	return nil
}

// watch follows one server until ctx ends, from where all of them together have come to.
func (p *Watch) watch(ctx context.Context, c *clientv3.Client) {
	for ctx.Err() == nil {
		p.mu.Lock()
		from, era := p.told+1, p.era
		p.mu.Unlock()
		one, cancel := context.WithCancel(era)
		for news := range c.Watch(clientv3.WithRequireLeader(one), p.prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
			if err := news.Err(); err != nil {
				if news.CompactRevision > 0 {
					p.tear(ctx, fmt.Sprintf("revisions up to %d were compacted before the watch had told them", news.CompactRevision))
				}
				break
			}
			p.take(news.Header.ClusterId, news.Events)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(restartEvery):
		}
	}
}

// take takes the changes of one answer, which are whole revisions.
func (p *Watch) take(cluster uint64, events []*clientv3.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cluster != p.cluster { // of before, or of what no look has seen yet
		return
	}
	now, told := p.clock(), p.told
	for _, e := range events {
		if e.Kv.ModRevision <= told { // another server was faster
			continue
		}
		p.told = max(p.told, e.Kv.ModRevision)
		key := ""
		if e.Type == mvccpb.DELETE {
			key = p.drop(string(e.Kv.Key))
		} else {
			key = p.put(e.Kv)
		}
		if key != "" {
			p.change(key, history.Span{From: min(p.looked.at.From, now), To: now})
		}
	}
	p.wake()
}

// tear says that what was changed in a stretch is not known, and takes what is there now.
func (p *Watch) tear(ctx context.Context, why string) {
	p.mu.Lock()
	at := history.Span{From: p.looked.at.From, To: p.clock()}
	p.news = append(p.news, history.Event{Kind: history.GapKind, Span: at, Source: witness.SourceKeys, Coverage: &history.Coverage{
		Probe: witness.KindKeys.Probe, Why: why, Failed: true, Largest: at.Width(),
	}})
	for _, l := range p.shown {
		l.torn = true
	}
	p.told = 0
	p.mu.Unlock()
	if err := p.list(ctx); err != nil {
		p.mu.Lock()
		p.torn = err
		p.mu.Unlock()
	}
}

// another reports that it is another cluster than before, and lets the watches begin anew there.
func (p *Watch) another(cluster uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cluster == p.cluster {
		return false
	}
	p.over()
	p.cluster = 0 // nothing is taken until it is listed
	p.era, p.over = context.WithCancel(p.life)
	return true
}

func (p *Watch) wake() {
	close(p.more)
	p.more = make(chan struct{})
}

// epochOf names the epoch that a rival's key is: by its token, which is known before the key is, or by its revision.
func epochOf(r *rival) string {
	if r.value != "" {
		return lockcore.Fingerprint(r.value)
	}
	return revision(r.created)
}

// change reports who has a lock now, if that is news.
func (p *Watch) change(key string, at history.Span) {
	l, s := p.lock(key), stateOfRival(p.holder(key))
	if l.Last.Epoch == s.Epoch {
		return
	}
	prev := l.At
	if !l.torn { // nothing was told in between
		prev.From = max(prev.From, min(p.looked.at.From, at.From))
		prev.To = max(prev.To, prev.From)
	}
	p.report(l, s, at, prev)
}

// lock is what was reported of the lock of that key.
func (p *Watch) lock(key string) *shownLock {
	if p.shown[key] == nil {
		p.shown[key] = &shownLock{Track: witness.Track{Key: key}}
	}
	return p.shown[key]
}

func (p *Watch) holder(key string) *rival {
	if all := p.rivals[key]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// report adds an event of a lock as it is, which was seen as it was before at prev.
func (p *Watch) report(l *shownLock, s witness.State, at, prev history.Span) {
	p.news = l.See(p.news, witness.SourceKeys, &witness.Names{}, s, witness.Sight{Span: at, Told: &witness.Told{News: true, Prev: prev, Direct: !l.torn}})
	l.torn = false
}

// stateOfRival is that of a lock which a rival has; nil = nobody has it.
func stateOfRival(holder *rival) witness.State {
	if holder == nil {
		return witness.State{Left: witness.Absent}
	}
	s := witness.State{Value: holder.value, Epoch: epochOf(holder), Fence: holder.created}
	if holder.lease == clientv3.NoLease {
		s.Left = witness.Endless
	} else if holder.granted > 0 {
		s.Left, s.Slack = (holder.left+1)*int64(time.Second), int64(time.Second)
	}
	return s
}

// Look reads a revision and waits until the watches have told everything up to it. The returned function gives an event for each change
// since the last look whose function was called, and for each lease that was seen to be prolonged; with final, also one for every lock.
func (p *Watch) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	answers := p.askLeases(ctx)
	s := revisionLook{at: history.At(p.clock())}
	got, err := p.clients.Get(ctx, p.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("look at the keys of locks: %w", err)
	}
	s.revision, s.at.To = got.Header.Revision, p.clock()
	if p.another(got.Header.ClusterId) {
		p.tear(ctx, "the store has lost its data, and counts revisions anew")
	}
	if err := p.await(ctx, s.revision); err != nil {
		return nil, err
	}
	p.showLeases(answers)
	return func(history.Span) []history.Event {
		p.mu.Lock()
		defer p.mu.Unlock()
		events := slices.DeleteFunc(p.news, func(e history.Event) bool { return e.Kind == history.LookKind && p.locks[e.Key] == "" })
		for i := range events {
			if events[i].Kind == history.LookKind {
				events[i].Lock = p.locks[events[i].Key]
			}
		}
		p.news = nil
		if p.looked = s; final {
			for key := range p.locks {
				last := *p.lock(key)
				events = last.See(events, witness.SourceKeys, &witness.Names{}, stateOfRival(p.holder(key)), witness.Sight{Span: s.at, Final: true, Told: &witness.Told{}})
				events[len(events)-1].Lock = p.locks[key]
			}
		}
		slices.SortStableFunc(events, func(a, b history.Event) int { return int(min(1, max(-1, a.To-b.To))) })
		return events
	}, nil
}

// await waits until the watches have told everything up to a revision.
func (p *Watch) await(ctx context.Context, revision int64) error {
	for {
		p.mu.Lock()
		reached, more, torn := p.told >= revision, p.more, p.torn
		p.torn = nil
		p.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("the watch has not told of revision %d, which a look has read: %w", revision, errors.Join(ctx.Err(), torn))
		}
	}
}

// Now is who holds a lock at this moment.
func (p *Watch) Now(ctx context.Context, lock, key string) (now witness.Unclaimed, epoch string, held bool, err error) {
	got, err := p.clients.Get(ctx, p.prefix+key, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return now, "", false, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	for _, kv := range got.Kvs {
		if p.lockKey(string(kv.Key), kv.Lease) == key {
			return witness.Unclaimed{Lock: lock, Key: key, Value: string(kv.Value)}, epochOf(p.rivalOf(kv)), true, nil
		}
	}
	return witness.Unclaimed{Lock: lock, Key: key}, "", false, nil
}
