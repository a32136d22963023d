package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// scriptedEnv makes the test binary a scripted worker: a lock of a few lines, not the lock core, that writes down the truth
// about itself where the drill does not look. Its value is the folder for that.
const scriptedEnv = "LOCKDRILL_TEST_SCRIPTED"

// The script: the lease, how often the holder extends it and ticks, and how often the others ask.
const (
	scriptTTL  = 100 * time.Millisecond
	scriptTick = 20 * time.Millisecond
	scriptPoll = 2 * time.Millisecond
)

const renewIfMine = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`

type scripted struct {
	cfg    protocol.Configure
	lock   protocol.Lock
	store  *redis.Client
	ledger *redis.Client
	out    sync.Mutex
	ops    int
	alive  []byte   // shared memory: the last instant at which this process was surely alive
	truth  *os.File // a line for each takeover: epoch, exact instant of its first tick, stamp of that tick's write.invoke
	offset int64    // wall clock minus CLOCK_MONOTONIC, ns
}

// runScripted is the whole life of a scripted replica.
func runScripted(dir string) error {
	if slices.Contains(os.Args[1:], "advisory") && advisoryWorker != nil {
		return advisoryWorker()
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return io.ErrUnexpectedEOF
	}
	var c protocol.Command
	if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
		return err
	}
	s := &scripted{cfg: *c.Configure, lock: c.Configure.Locks[0], offset: wallOffset()}
	s.store = redis.NewClient(&redis.Options{Addr: s.cfg.Store.Addr, MaxRetries: -1})
	s.ledger = redis.NewClient(&redis.Options{Addr: s.cfg.Ledger.Addr, MaxRetries: -1})
	if err := s.openTruth(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // stop, or the runner's end
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"cmd":"stop"`) {
				break
			}
		}
		cancel()
	}()
	go s.beat()
	s.say(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: s.cfg.Name, Incarnation: s.cfg.Incarnation, PID: os.Getpid()}})
	for n := 0; ctx.Err() == nil; n++ {
		if err := s.seek(ctx, fmt.Sprintf("%s-%d", s.cfg.Incarnation, n)); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (s *scripted) openTruth(dir string) (err error) {
	alive, err := os.Create(filepath.Join(dir, s.cfg.Incarnation+".alive"))
	if err != nil {
		return err
	}
	if err := alive.Truncate(8); err != nil {
		return err
	}
	s.alive, err = unix.Mmap(int(alive.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	s.truth, err = os.Create(filepath.Join(dir, s.cfg.Incarnation+".truth"))
	return err
}

// beat leaves the last instant of life in shared memory, which survives the kill.
func (s *scripted) beat() {
	runtime.LockOSThread()
	for {
		binary.LittleEndian.PutUint64(s.alive, uint64(monotime.Now()))
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil)
	}
}

// seek asks for the lock once, and holds it as long as it can.
func (s *scripted) seek(ctx context.Context, token string) error {
	key := s.cfg.Store.Prefix + s.lock.Key
	e := s.event(lockcore.Fingerprint(token))
	invoke := s.call(e, history.AcquireInvoke, &history.Call{TTL: int64(scriptTTL), Demand: true, Attempt: 1})
	got, err := s.store.SetNX(ctx, key, token, scriptTTL).Result()
	if err != nil {
		return err
	}
	ret := invoke
	ret.Kind, ret.To = history.AcquireReturn, monotime.Now()
	if !got {
		ret.Outcome, ret.Call = history.Fail, &history.Call{Result: history.ResultHeld}
		s.write(ret)
		return pause(ctx, scriptPoll)
	}
	fence := time.Now().UnixMicro()
	ret.Outcome, ret.Fence, ret.Call = history.OK, fence, &history.Call{Result: history.ResultGranted}
	s.write(ret)
	e.Fence = fence
	return s.lead(ctx, e, key, token)
}

// lead ticks and extends until the process is stopped or killed.
func (s *scripted) lead(ctx context.Context, e history.Event, key, token string) error {
	for n := 1; ; n++ {
		if err := s.tick(ctx, e, n); err != nil {
			return err
		}
		if err := pause(ctx, scriptTick); err != nil {
			return err
		}
		renew := s.call(e, history.RenewInvoke, &history.Call{TTL: int64(scriptTTL)})
		ok, err := s.store.Eval(ctx, renewIfMine, []string{key}, token, scriptTTL.Milliseconds()).Bool()
		if err != nil {
			return err
		}
		renew.Kind, renew.To = history.RenewReturn, monotime.Now()
		renew.Outcome, renew.Call = history.OK, &history.Call{Result: history.ResultRenewed}
		if !ok {
			renew.Outcome, renew.Call = history.Fail, &history.Call{Result: history.ResultAbsent}
		}
		s.write(renew)
		if !ok {
			lost := e
			lost.Kind, lost.Span, lost.Abandon = history.FenceObserved, history.At(monotime.Now()), &history.Abandon{Reason: "not_owned"}
			s.write(lost)
			return nil
		}
	}
}

// tick writes an effect and, in the same transaction, asks the ledger's server for the exact time of it.
func (s *scripted) tick(ctx context.Context, e history.Event, n int) error {
	work := s.next(e)
	work.Kind, work.Span, work.Work = history.WorkEnter, history.At(monotime.Now()), &history.Work{Subject: s.lock.Name}
	s.write(work)
	w := e
	w.Kind, w.Op, w.Write = history.WriteInvoke, fmt.Sprintf("%s:%d", e.Epoch, n), &history.Write{Subject: s.lock.Name, State: history.StateTick}
	w.Span = history.At(monotime.Now())
	s.write(w)
	var at *redis.TimeCmd
	cmds, err := s.ledger.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Eval(ctx, s.cfg.Script, redisstore.KeysOf(s.cfg.Ledger.Prefix).List(),
			e.Key, s.lock.Name, 1, history.StateTick, 0, e.Epoch, e.Fence, w.Op, s.cfg.Incarnation, 0, 0)
		at = p.Time(ctx)
		return nil
	})
	if err != nil {
		return err
	}
	if n == 1 {
		fmt.Fprintf(s.truth, "%s %d %d\n", e.Epoch, at.Val().UnixNano()-s.offset, w.From)
	}
	reply, _ := cmds[0].(*redis.Cmd).Slice()
	w.Kind, w.To, w.Outcome = history.WriteReturn, monotime.Now(), history.OK
	w.Write = &history.Write{Subject: s.lock.Name, State: history.StateTick, Accepted: len(reply) > 1 && reply[1] == int64(1)}
	s.write(w)
	work.Kind, work.Span = history.WorkExit, history.At(monotime.Now())
	s.write(work)
	return nil
}

func (s *scripted) event(epoch string) history.Event {
	return history.Event{Lock: s.lock.Name, Key: s.lock.Key, Epoch: epoch}
}

func (s *scripted) next(e history.Event) history.Event {
	s.ops++
	e.Op = fmt.Sprintf("op%d", s.ops)
	return e
}

// call announces a call: the line is out before the call is made.
func (s *scripted) call(e history.Event, kind history.Kind, body *history.Call) history.Event {
	e = s.next(e)
	e.Kind, e.Span, e.Call = kind, history.At(monotime.Now()), body
	s.write(e)
	return e
}

func (s *scripted) say(e history.Event) {
	e.Span = history.At(monotime.Now())
	s.write(e)
}

func (s *scripted) write(e history.Event) {
	e.Source, e.Clock = s.cfg.Incarnation, history.ClockShared
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	s.out.Lock()
	defer s.out.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wallOffset is the wall clock minus CLOCK_MONOTONIC, from the tightest of many readings.
func wallOffset() int64 {
	best, offset := int64(1<<62), int64(0)
	for range 200 {
		a := monotime.Now()
		wall := time.Now().UnixNano()
		if b := monotime.Now(); b-a < best {
			best, offset = b-a, wall-(a+b)/2
		}
	}
	return offset
}

// truth is what the scripted replicas wrote down, in absolute CLOCK_MONOTONIC ns.
type truth struct {
	ticks map[string][2]int64 // by epoch: the exact instant of its first tick, and the stamp of that tick's write.invoke
	beats map[string]int64    // by incarnation: the last sign of life
}

func readTruth(dir string) (truth, error) {
	t := truth{map[string][2]int64{}, map[string]int64{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return t, err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return t, err
		}
		if inc, ok := strings.CutSuffix(f.Name(), ".alive"); ok {
			t.beats[inc] = int64(binary.LittleEndian.Uint64(data))
			continue
		}
		for line := range bytes.Lines(data) {
			var epoch string
			var tick, invoke int64
			if _, err := fmt.Sscan(string(line), &epoch, &tick, &invoke); err == nil {
				t.ticks[epoch] = [2]int64{tick, invoke}
			}
		}
	}
	return t, nil
}
