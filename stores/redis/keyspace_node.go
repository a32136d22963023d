package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// node is one server that is looked at.
type node struct {
	p     *Keyspace
	c     *redis.Client
	owned bool // c is closed with the node
	alone bool // of a cluster: a script has one key
	slots []redis.ClusterSlot
	read1 reader

	canary   string        // "" = there can be none
	chirps   chirps        //
	events   *subscription // nil = there are none, or they cannot be believed
	why      string        // why not
	before   history.Span  // the last barrier: what happened until then was taken by the look before this one
	believed int64         // when the last canary that was seen was sent: what the server shows and tells is true until then

	dues    dues
	unnamed []*known // held by nobody who is known: sources may know more when they are asked again
	mine    []*known // seen on this server
	turn    int      // in mine: whose turn it is to be read where there are no events
	looked  int64    // when the last look was
	looks   int64
	sweep   sweep

	unexplained map[string]history.Span // keys whose change the sweep saw and no event had told of yet
	server      string                  // its run_id when it was joined; "" = it does not say

	commands int64 // sent
}

func (p *Keyspace) newNode(c *redis.Client) *node {
	n := &node{p: p, c: c, canary: p.o.Canary, unexplained: map[string]history.Span{}}
	n.chirps = chirps{number: p.joins << 32, sent: map[int64]chirp{}}
	return n
}

func (n *node) close() {
	n.p.costs.commands += n.commands
	if n.events != nil {
		n.p.costs.messages += n.events.count()
		n.events.close()
	}
	if n.owned {
		_ = n.c.Close()
	}
}

// join subscribes, if the server lets us and tells of canaries, and begins the first sweep.
func (n *node) join(ctx context.Context) error {
	n.read1 = reader{redis: n.c, script: n.p.ask.script}
	var patterns []string
	for _, pattern := range slices.Sorted(maps.Keys(n.p.o.Under)) {
		patterns = append(patterns, globOf(pattern))
	}
	n.sweep = sweep{patterns: append(slices.Clone(patterns), n.p.o.Globs...), began: n.p.o.Clock()}
	for key := range n.p.o.Exact {
		if n.has(key) {
			n.know(key)
			patterns = append(patterns, globQuote(key))
		}
	}
	if n.canary == "" {
		n.why = "the server has too few slots of the cluster"
		return nil
	}
	if _, err := n.read1.read(ctx, nil, []string{n.canary}, 1); err != nil { // it has the script from now on
		return err
	}
	n.server = n.runID(ctx)
	if n.p.o.Quiet {
		n.why = "nothing is written to the server, so that nothing shows whether it tells of all changes"
		return nil
	}
	var err error
	n.events, err = subscribe(ctx, n.c, n.p.o.DB, n.canary, patterns)
	if refused(err) {
		n.why = err.Error()
	} else if err != nil {
		return err
	}
	return n.hearCanary(ctx)
}

// runID is what the server that answers now calls itself; "" = it does not say.
func (n *node) runID(ctx context.Context) string {
	n.commands++
	info, err := serverInfo(ctx, n.c)
	if err != nil {
		return ""
	}
	return info["run_id"]
}

// hearCanary writes the first canary, and waits until it is told of, or known that it is not.
func (n *node) hearCanary(ctx context.Context) error {
	if n.events == nil && n.p.o.Replica == nil {
		return nil
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for n.chirp(); ; n.chirp() {
		err := n.believe(ctx)
		if err != nil && !errors.Is(err, ErrNotYet) || err == nil && n.believed > 0 || n.events == nil && n.p.o.Replica == nil {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// believe learns which canaries the server shows and tells of.
func (n *node) believe(ctx context.Context) error {
	shown, err := n.shown(ctx)
	switch {
	case refused(err) && n.p.o.Replica == nil:
		n.distrust("the key " + n.canary + " cannot be written: " + err.Error())
		return nil
	case err != nil:
		return err
	}
	of := n.chirps.of(shown)
	if n.events != nil {
		n.commands++
		barrier, err := n.events.barrier(ctx, n.p.o.Clock)
		if err != nil {
			return err
		}
		if of.at > 0 && n.told() <= of.told {
			if n.believed > 0 {
				n.p.gap(history.Span{From: n.believed, To: barrier.To}, "keyspace events of the keys are not told any more")
			}
			n.distrust("the server does not tell of keys that are set and given an expiry: notify-keyspace-events needs K, g and $ (or KA)")
		}
	}
	n.believed = max(n.believed, of.at)
	if behind := n.p.o.Clock() - n.believed; n.p.o.Replica != nil && (n.believed == 0 || behind > int64(n.p.o.MaxGap)) {
		return fmt.Errorf("%w: the replica does not show what its primary was told %s ago", ErrNotYet, time.Duration(behind).Round(time.Millisecond))
	}
	return nil
}

// shown is the last canary that the server surely has. What a replica shows is no older than its last canary.
func (n *node) shown(ctx context.Context) (int64, error) {
	written, err := n.chirps.answered()
	if err != nil || n.p.o.Replica == nil {
		return written, err
	}
	n.commands++
	seen, err := n.c.Get(ctx, n.canary).Int64()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return seen, err
}

// distrust has the keys read in turn from now on.
func (n *node) distrust(why string) {
	if n.why = why; n.events == nil {
		return
	}
	n.p.costs.messages += n.events.count()
	n.events.close()
	n.events = nil
}

// know is the key of that name, known from now on.
func (n *node) know(name string) *known {
	w := n.p.keys[name]
	if w == nil {
		n.p.mu.Lock()
		defer n.p.mu.Unlock()
		lock, of := n.p.lockOf(name)
		w = &known{Track: witness.Track{Lock: lock, Key: name}, exact: of == name}
		n.p.keys[name] = w
		if n.sweep.done > 0 && n.events != nil { // until the last barrier no event had told of it
			w.Seen, w.At, w.Last = true, n.before, witness.State{Left: witness.Absent}
		} else if n.sweep.done > 0 { // a sweep did not find it: at one instant at least it was not there
			w.Seen, w.At, w.Last = true, n.sweep.last, witness.State{Left: witness.Absent}
		}
	}
	if w.node != n {
		w.node, w.unnamed = n, false
		n.mine = append(n.mine, w)
	}
	return w
}

// look makes one look at the server's keys.
func (n *node) look(ctx context.Context, final bool) error {
	n.chirp()
	n.looks++
	now := n.p.o.Clock()
	changed, barrier, err := n.news(ctx)
	if err != nil {
		return err
	}
	if err := n.read(ctx, n.list(changed, now, final), final && n.sweep.done > 0, true); err != nil {
		return err
	}
	n.looked, n.before = now, barrier
	if n.sweep.done > 0 {
		return n.sweepOn(ctx)
	}
	return n.first(ctx)
}

// news waits until all is told that happened so far, and takes the keys that have changed: true = by more than that a lease was over.
func (n *node) news(ctx context.Context) (changed map[string]bool, barrier history.Span, err error) {
	believed := n.believed
	if err := n.believe(ctx); err != nil {
		return nil, barrier, err
	}
	if n.events == nil {
		return nil, barrier, nil
	}
	changed, barrier = n.events.take()
	if n.p.o.Replica != nil {
		barrier.From = min(barrier.From, n.believed)
	}
	another := ""
	if len(n.unexplained) > 0 && n.server != "" {
		another = n.runID(ctx)
	}
	for name, seen := range n.unexplained {
		if another != "" && another != n.server { // its state is another; the server that was joined had told of all until then
			seen.From = max(seen.From, believed)
		}
		if _, told := changed[name]; !told {
			n.p.gap(seen, "key "+name+" changed, and no keyspace event told of it")
		}
	}
	clear(n.unexplained)
	return changed, barrier, nil
}

// list is which keys a look reads.
func (n *node) list(changed map[string]bool, now int64, final bool) []*known {
	if final {
		for name := range changed {
			n.know(name)
		}
		return n.mine
	}
	var all []*known
	add := func(w *known) {
		if w.round != n.looks {
			w.round, all = n.looks, append(all, w)
		}
	}
	for _, w := range n.mine[:min(len(n.mine), len(n.p.o.Exact))] { // they were known first
		if w.exact {
			add(w)
		}
	}
	for name, more := range changed {
		if w := n.know(name); more || !w.Seen || w.Last.Left != witness.Absent {
			n.persist(w)
			add(w)
		}
	}
	for _, w := range n.dues.over(now) {
		n.persist(w)
		add(w)
	}
	n.unnamed = slices.DeleteFunc(n.unnamed, func(w *known) bool {
		w.unnamed = w.Last.Left != witness.Absent && w.Named.Holder == ""
		if w.unnamed && now-w.At.From > int64(askAgain) {
			add(w)
		}
		return !w.unnamed
	})
	if n.events == nil {
		n.inTurn(now, add)
	}
	return all
}

// persist takes note that a key was until the last barrier as the last look at it showed it, since no event had told otherwise.
func (n *node) persist(w *known) {
	b := n.before
	if n.events == nil || !w.Seen || b.From <= w.At.From || w.Last.Left >= 0 && b.To >= w.At.From+w.Last.Left {
		return
	}
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	if w.Last.Left > 0 {
		w.Last.Left = max(1, w.Last.Left-max(0, b.From-w.At.To))
	}
	w.At = b
}

// inTurn adds those of the keys that a look reads where there are no events.
func (n *node) inTurn(now int64, add func(*known)) {
	most := mostReads
	if n.looked > 0 {
		most = int(min(mostReads, (now-n.looked)*readsPerMilli/int64(time.Millisecond)+1))
	}
	for range min(most, len(n.mine)) {
		if n.turn >= len(n.mine) {
			n.turn = 0
		}
		add(n.mine[n.turn])
		n.turn++
	}
}

const keysAtOnce = 256 // keys a script call: Redis serves nobody else meanwhile (about 0.3 ms)

// read reads keys; explained = events or the end of their leases say why they may have changed.
func (n *node) read(ctx context.Context, keys []*known, final, explained bool) error {
	for part := range slices.Chunk(keys, keysAtOnce) {
		names := make([]string, 0, len(part))
		for _, w := range part {
			names = append(names, w.Key)
		}
		at := history.At(n.p.o.Clock())
		states, err := n.states(ctx, names)
		if err != nil {
			return err
		}
		at.To = n.p.o.Clock()
		if n.p.o.Replica != nil {
			at.From = min(at.From, n.believed)
		}
		for i, w := range part {
			n.take(w, n.p.shows(w.Key, states[i]), at, final, explained)
		}
	}
	return nil
}

// take takes in what a look at a key showed.
func (n *node) take(w *known, s witness.State, at history.Span, final, explained bool) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	s = w.OfToken(s)
	before, over := w.At, w.Seen && w.Last.Left >= 0 && s.Left == witness.Absent && at.To >= w.At.From+w.Last.Left
	if !explained && !over && n.events != nil && w.News(s, at) {
		n.unexplained[w.Key] = history.Span{From: before.From, To: at.To}
	}
	n.p.told = w.See(n.p.told, witness.SourceKeys, &n.p.names, s, witness.Sight{Span: at, Final: final})
	n.dues.expect(w, at, s)
	if unnamed := s.Left != witness.Absent && w.Named.Holder == "" && n.p.names.Holder != nil; unnamed && !w.unnamed {
		n.unnamed = append(n.unnamed, w)
		w.unnamed = true
	}
}

// states reads keys, on a server of a cluster by a call for each: they are not in one slot.
func (n *node) states(ctx context.Context, names []string) ([]witness.State, error) {
	states := make([]witness.State, 0, len(names))
	if !n.alone {
		n.commands++
		return n.read1.read(ctx, states, names, len(names))
	}
	n.commands += int64(len(names))
	replies := make([]*redis.Cmd, len(names))
	_, err := n.c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		ask := pipe.EvalShaRO
		if n.read1.plain.Load() {
			ask = pipe.EvalSha
		}
		for i, name := range names {
			replies[i] = ask(ctx, n.read1.script.Hash(), []string{name}, 1)
		}
		return nil
	})
	for i := 0; err == nil && i < len(replies); i++ {
		var reply []any
		if reply, err = replies[i].Slice(); err == nil {
			states, err = parseLook(states, reply, 1, 1)
		}
	}
	return states, err
}

// globQuote makes a pattern of Redis mean a text by itself.
func globQuote(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

// globOf is a pattern with one star as Redis has it: all else means itself.
func globOf(pattern string) string {
	return strings.ReplaceAll(globQuote(pattern), `\*`, "*")
}

func channelOf(db int, pattern string) string {
	return "__keyspace@" + strconv.Itoa(db) + "__:" + pattern
}
