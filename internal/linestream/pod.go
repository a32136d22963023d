package linestream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/monotime"
)

// JoinOptions say which fleet a replica joins, and as what.
type JoinOptions struct {
	Redis    *redis.Options // the ledger's store
	Fleet    string
	Pod, UID string    // of the pod that this process runs in
	Log      io.Writer // standard output, the pod's log: each line with its number, written before it is sent

	pace pace // zero = defaults
}

// Pod is a replica's end: it reads commands from it as from its standard input and writes events to it as to its standard output. Read
// is for one goroutine, Write for any number: their lines share round trips.
//
// The input ends with io.EOF where the runner or the fleet's next run wants this life to end, where its presence was taken away, and
// where the runner of its drill is dead; with another error where the line is broken. A process that goes on joins again, as a new life.
type Pod struct {
	redis *redis.Client
	names names
	life  string
	said  string // id of its hello in the fleet's stream; the sender's
	log   io.Writer
	pace  pace

	stop context.CancelFunc // of its goroutines
	work sync.WaitGroup

	mu      sync.Mutex // numbering, printing and queueing are one act
	last    place
	waiting []*entry
	kept    atomic.Int64 // number of the last line that Redis has acknowledged
	taken   place        // of the commands: what was handed on
	drill   bool         // a command came: a runner has this life

	wake  chan struct{}
	lines chan []byte   // commands
	rest  []byte        // of the command that is being read
	quit  chan struct{} // closed by the sender: no more commands, this life is not wanted any more

	once sync.Once
	over chan struct{} // closed: nothing is written or read any more
	err  error         // why; nil = in order
}

// hello is what a life says of itself, in its out stream and under its presence key.
type hello struct {
	V    int    `json:"v"`
	Life string `json:"life"`
	Pod  string `json:"pod"`
	UID  string `json:"uid"`
	T    int64  `json:"t"` // its CLOCK_MONOTONIC then, ns
}

// inLines is how many commands wait in memory for a replica to read them; the others wait in the stream.
const inLines = 1024

// Join says hello to the fleet and returns when Redis has acknowledged it. ctx bounds the joining only; the caller closes the Pod.
// The log's first line is that hello, with number 0.
func Join(ctx context.Context, o JoinOptions) (*Pod, error) {
	f, err := namesOf(o.Fleet)
	if err != nil {
		return nil, err
	}
	if o.pace == (pace{}) {
		o.pace = defaults()
	}
	p := &Pod{
		redis: endpoint.Client(o.Redis, o.pace.call), names: f, life: newID(), log: o.Log, pace: o.pace, last: place{0, 1}, taken: place{0, 1},
		wake: make(chan struct{}, 1), lines: make(chan []byte, inLines),
		quit: make(chan struct{}), over: make(chan struct{}),
	}
	if err := p.hello(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("join fleet %s: %w", o.Fleet, err), p.redis.Close())
	}
	running, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.work.Go(func() { p.send(running) })
	p.work.Go(func() { p.receive(running) })
	return p, nil
}

// Life is the id of this life.
func (p *Pod) Life() string { return p.life }

func (p *Pod) hello(ctx context.Context, o JoinOptions) error {
	text, err := json.Marshal(hello{V: Version, Life: p.life, Pod: o.Pod, UID: o.UID, T: monotime.Now()})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(p.log, "0 %s\n", text); err != nil {
		return fmt.Errorf("print hello: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.pace.join)
	defer cancel()
	for {
		err := p.tryHello(ctx, text)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(p.pace.pause):
		case <-ctx.Done():
			return err
		}
	}
}

// tryHello makes the keys of this life; a repetition changes nothing but that the fleet reads of it twice.
func (p *Pod) tryHello(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.pace.call)
	defer cancel()
	in, out := p.names.in(p.life), p.names.out(p.life)
	var said *redis.StringCmd
	cmds, err := p.redis.TxPipelined(ctx, func(t redis.Pipeliner) error {
		t.XAdd(ctx, &redis.XAddArgs{Stream: in, ID: "0-1", Values: []any{openField, ""}})
		t.XAdd(ctx, &redis.XAddArgs{Stream: out, ID: "0-1", Values: []any{helloField, text, stampField, monotime.Now()}})
		t.Set(ctx, p.names.life(p.life), text, p.pace.presence)
		t.PExpire(ctx, in, p.pace.presence)
		t.PExpire(ctx, out, p.pace.presence)
		said = p.sayHello(ctx, t)
		t.PExpire(ctx, p.names.hellos(), p.pace.presence)
		return nil
	})
	if err != nil && !wasThere(err) {
		return err
	}
	for _, c := range cmds {
		if err := c.Err(); err != nil && !wasThere(err) {
			return err
		}
	}
	p.said = said.Val()
	return nil
}

func (p *Pod) sayHello(ctx context.Context, t redis.Pipeliner) *redis.StringCmd {
	return t.XAdd(ctx, &redis.XAddArgs{Stream: p.names.hellos(), MaxLen: maxHellos, Approx: true, ID: "*", Values: []any{"life", p.life}})
}

// Write writes one line, which ends with a newline, and returns when Redis has it.
func (p *Pod) Write(b []byte) (int, error) {
	text, ok := bytes.CutSuffix(b, []byte("\n"))
	if !ok || bytes.IndexByte(text, '\n') >= 0 || len(text) > maxLine {
		return 0, fmt.Errorf("write %d bytes: want one whole line of at most %d", len(b), maxLine)
	}
	e, err := p.put(text)
	if err != nil {
		return 0, err
	}
	select {
	case <-e.done:
		return len(b), nil
	case <-p.over:
	}
	select { // it may have been the last to get through
	case <-e.done:
		return len(b), nil
	default:
		return 0, p.cause()
	}
}

// put numbers a line, prints it and lines it up.
func (p *Pod) put(text []byte) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended():
		return nil, p.cause()
	case int64(len(p.waiting)) >= p.pace.lines:
		return nil, ErrBacklog
	}
	stamp := monotime.Now()
	if _, err := fmt.Fprintf(p.log, "%d/%d %s\n", p.last.n+1, p.kept.Load(), text); err != nil {
		return nil, fmt.Errorf("print line %d: %w", p.last.n+1, err)
	}
	return p.queue(p.last.line(), lineField, bytes.Clone(text), stamp), nil
}

// queue appends an entry; p.mu is held.
func (p *Pod) queue(at place, name string, value any, stamp int64) *entry {
	p.last = at
	e := &entry{at: at, values: []any{name, value, stampField, stamp}, done: make(chan struct{})}
	p.waiting = append(p.waiting, e)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return e
}

// aside lines up an entry of this package's own.
func (p *Pod) aside(name, value string) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue(p.last.aside(), name, value, monotime.Now())
}

// Read gives the commands, each ending with a newline.
func (p *Pod) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		line, open := <-p.lines
		if !open {
			if p.ended() && p.err != nil {
				return 0, p.err
			}
			return 0, io.EOF
		}
		p.rest = append(line, '\n')
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close says why this life ends ("" = in order), waits a few seconds until Redis has that, and closes the connections. The keys of the
// life are the hub's to remove; without one they run out.
func (p *Pod) Close(why string) error {
	var err error
	if !p.ended() {
		bye := p.aside(byeField, why)
		select {
		case <-bye.done:
		case <-p.over:
			err = p.cause()
		case <-time.After(p.pace.drain):
			err = fmt.Errorf("leave the fleet: %w", ErrCut)
		}
	}
	p.end(nil)
	p.work.Wait()
	return errors.Join(err, p.redis.Close())
}

// end ends the line once, with the error that Read and Write return from then on.
func (p *Pod) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.over)
		p.stop()
	})
}

func (p *Pod) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// cause is the error of whoever finds the line over.
func (p *Pod) cause() error {
	<-p.over
	if p.err != nil {
		return p.err
	}
	return io.ErrClosedPipe
}
