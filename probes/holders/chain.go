package holders

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Chain asks sources in their order, and holds their answers against one another. It is safe for concurrent use.
type Chain struct {
	sources []Source
	clock   func() int64
	stop    context.CancelFunc
	ctx     context.Context
	wg      sync.WaitGroup
	slots   chan struct{} // of questions that are being asked

	mu   sync.Mutex
	keys map[string]*asked
}

// asked is what is known of a key's present token.
type asked struct {
	id     string // of key and token
	named  witness.Named
	busy   bool
	next   int64 // not to be asked again before
	tried  int
	seenAt int64
}

// How often what is not known is asked again, and how much is kept.
const (
	askAgain   = 50 * time.Millisecond // at first; later more rarely
	askRarely  = 2 * time.Second
	atOnce     = 8 // questions
	mostKeys   = 10_000
	lookAtLogs = 50 * time.Millisecond
)

// NewChain returns a chain of sources. Its owner calls Close.
func NewChain(clock func() int64, sources ...Source) *Chain {
	c := &Chain{sources: sources, clock: clock, slots: make(chan struct{}, atOnce), keys: map[string]*asked{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	for _, s := range sources {
		switch s := s.(type) {
		case *Client:
			c.wg.Go(func() { s.Run(c.ctx) })
		case *Log:
			c.wg.Go(func() { s.follow(c.ctx) })
		}
	}
	return c
}

// follow reads the files now and then.
func (g *Log) follow(ctx context.Context) {
	tick := time.NewTicker(lookAtLogs)
	defer tick.Stop()
	for g.Read(); ; g.Read() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close ends what the sources do by themselves.
func (c *Chain) Close() error {
	c.stop()
	c.wg.Wait()
	var err error
	for _, s := range c.sources {
		switch s := s.(type) {
		case *Client:
			err = s.Close()
		case *Log:
			s.Close()
		}
	}
	return err
}

// Named is who holds a key, as far as is known by now; what is not known is being asked meanwhile.
func (c *Chain) Named(q Question) witness.Named {
	now, id := c.clock(), tokenID(q.Key, q.Value)
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.keys[q.Key]
	if a == nil || a.id != id {
		a = &asked{id: id}
		c.keys[q.Key] = a
		c.purge(now)
	}
	a.seenAt = now
	if a.named.Name { // another life may have the name by now
		if again := settle(c.recall(q)); again.Name && again.Holder != "" {
			a.named = again
		}
	}
	if a.named.Holder != "" || a.busy || now < a.next {
		return a.named
	}
	if a.named = settle(c.recall(q)); a.named.Holder != "" || a.named.Disputed != "" {
		a.next = now + int64(askRarely)
		return a.named
	}
	a.busy = true
	c.wg.Go(func() { c.find(q, a) })
	return a.named
}

// purge forgets keys that nobody has asked for lately.
func (c *Chain) purge(now int64) {
	if len(c.keys) < mostKeys {
		return
	}
	for key, a := range c.keys {
		if now-a.seenAt > int64(time.Minute) {
			delete(c.keys, key)
		}
	}
}

// said is the answer of a source.
type said struct {
	word string
	Answer
}

// recall is what sources have seen already.
func (c *Chain) recall(q Question) (all []said) {
	for _, s := range c.sources {
		if i, ok := s.(Instant); ok {
			all = append(all, said{s.Word(), i.Recall(q)})
		}
	}
	return all
}

// find asks those that have to ask, one after the other, until one knows.
func (c *Chain) find(q Question, a *asked) {
	select {
	case c.slots <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	defer func() { <-c.slots }()
	var found []said
	for _, s := range c.sources {
		if client, ok := s.(*Client); ok {
			client.Want(q, false)
			continue
		}
		if _, instant := s.(Instant); instant {
			continue
		}
		answer := s.Ask(c.ctx, q)
		if found = append(found, said{s.Word(), answer}); len(answer.Holders) > 0 {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.busy = false
	a.named = settle(append(c.recall(q), found...))
	a.next = c.clock() + int64(min(askAgain<<min(a.tried, 6), askRarely))
	a.tried++
}

// settle is who holds by all answers: nobody where they name several.
func settle(all []said) witness.Named {
	var n witness.Named
	var names, says []string
	for _, s := range all {
		for _, h := range s.Holders {
			names = add(names, h)
		}
		if len(s.Holders) > 0 {
			says = append(says, s.word+" says "+strings.Join(s.Holders, " and "))
			if n.By == "" {
				n.By, n.Name = s.word, s.word == (*Value)(nil).Word()
			}
		}
	}
	switch len(names) {
	case 0:
		return witness.Named{}
	case 1:
		n.Holder = names[0]
		return n
	}
	return witness.Named{Disputed: strings.Join(says, ", ")}
}

// Void is why a shot at the holder must not count.
type Void struct {
	word history.VoidReason
	text string
}

// NewVoid is such a reason.
func NewVoid(word history.VoidReason, text string) error { return &Void{word, text} }

func (v *Void) Error() string { return v.text }

// Void is the word for it.
func (v *Void) Void() history.VoidReason { return v.word }

// Now asks all sources again, at once, of which the client's only looks whether its connections are still theirs; it opens a window where
// no other knows. says has what each of them says, or lacks.
func (c *Chain) Now(ctx context.Context, q Question) (named witness.Named, says []string) {
	all := make([]said, len(c.sources))
	var wg sync.WaitGroup
	for i, s := range c.sources {
		if client, ok := s.(*Client); ok && len(client.Recall(q).Holders) == 0 {
			all[i] = said{s.Word(), client.Recall(q)}
			continue
		}
		wg.Go(func() { all[i] = said{s.Word(), s.Ask(ctx, q)} })
	}
	wg.Wait()
	named = settle(all)
	if at := slices.IndexFunc(c.sources, func(s Source) bool { return s.Word() == "client" }); named == (witness.Named{}) && at >= 0 {
		all[at].Answer = c.sources[at].Ask(ctx, q)
		named = settle(all)
	}
	for _, s := range all {
		says = append(says, s.word+": "+cmp.Or(strings.Join(s.Holders, " and "), s.Why))
	}
	return named, says
}

// Confirm asks all sources again, just before victim is struck as the holder; nil = it is.
func (c *Chain) Confirm(ctx context.Context, q Question, victim string) error {
	named, says := c.Now(ctx, q)
	switch {
	case named.Disputed != "":
		return &Void{history.HolderDisputed, named.Disputed}
	case named.Holder == "":
		return &Void{history.HolderUnknown, "no source knows any more who holds key " + q.Key + ": " + strings.Join(says, "; ")}
	case named.Holder != victim:
		return &Void{history.HolderDisputed, fmt.Sprintf("%s said %s before, and says %s now", named.By, victim, named.Holder)}
	}
	return nil
}
