// Package drills runs drills by a schedule: it knows which is due, who has asked for one and who has approved it, starts each as a
// process of its own, and writes down what became of it.
//
// It makes no fault itself and judges nothing: a drill is `lockdrill run` of the same binary, under the guards, the journal and the
// watchdog of any other run. Its one invariant: a start is on the disk before the process, and the process ends, in order, when this one
// does. So whenever this process dies, no fault is left and no run is lost.
package drills

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/due"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/notice"
)

// Options of a keeper.
type Options struct {
	Dir         string // folder of runs
	Schedule    string // file
	Experiments string // folder of the only files that are ever run
	Binary      string // lockdrill itself
	Say         func(string)
	Tell        func(notice.Event)      // nil = nobody is told
	Looked      func()                  // a run was added or has ended
	Link        func(run string) string // address of a run's page

	Targets func(*experiments.Experiment) []string                                      // what a drill may change and others may use as well
	Query   func(ctx context.Context, q *experiments.QueryCondition) ([]float64, error) // the values of its result, now
	Now     func() time.Time
}

// Files in the folder of runs. Names that begin with a dot are no runs.
const (
	bookFile     = ".lockdrill-drills.jsonl"
	seedFile     = ".lockdrill-seed"
	noticeFolder = ".lockdrill-notices"
)

// Keeper runs the drills of one schedule. It is safe for concurrent use.
type Keeper struct {
	o    Options
	book *Book
	seed []byte
	wake chan struct{}
	wg   sync.WaitGroup // of drills that run

	mu       sync.Mutex
	schedule *experiments.Schedule
	read     time.Time // when the schedule's file was written that was read last
	broken   string    // why the file on the disk is not obeyed; "" = it is
	running  map[string]*running
	waiting  map[string]Waiting // by drill, or by request
	planning chan struct{}      // plans are made one after another
}

// Waiting is a drill that is due and is kept from starting.
type Waiting struct {
	Slot  due.Slot
	Until time.Time
	Why   string
}

// Open reads the schedule and the record. The schedule's problems are of type experiments.Problems.
func Open(o Options) (_ *Keeper, err error) {
	for _, path := range []*string{&o.Dir, &o.Experiments, &o.Binary} { // drills are run in another folder
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	k := &Keeper{o: o, wake: make(chan struct{}, 1), running: map[string]*running{}, waiting: map[string]Waiting{}, planning: make(chan struct{}, 1)}
	if err := k.check(); err != nil {
		return nil, err
	}
	if k.seed, err = seedIn(filepath.Join(o.Dir, seedFile)); err != nil {
		return nil, err
	}
	k.book, err = OpenBook(filepath.Join(o.Dir, bookFile))
	return k, err
}

// Book is the record.
func (k *Keeper) Book() *Book { return k.book }

// seedIn reads what random times are made of, or draws it: it stands in no schedule, so that nobody can compute them.
func seedIn(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = []byte(rand.Text() + rand.Text())
		err = os.WriteFile(path, data, 0o600)
	}
	if err == nil && len(data) < 26 {
		err = fmt.Errorf("%s: it is cut off: remove it, and another one is drawn", path)
	}
	return data, err
}

// load reads the schedule again where its file has changed.
func (k *Keeper) load() error {
	info, err := os.Stat(k.o.Schedule)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.schedule != nil && info.ModTime().Equal(k.read) {
		return nil
	}
	data, err := os.ReadFile(k.o.Schedule)
	if err != nil {
		return err
	}
	k.read = info.ModTime()
	s, err := experiments.ParseSchedule(k.o.Schedule, data)
	if err != nil {
		k.broken = err.Error()
		return err
	}
	k.schedule, k.broken = s, ""
	return nil
}

// Schedule is what is obeyed now, and why the file on the disk is not; "" = it is that.
func (k *Keeper) Schedule() (s *experiments.Schedule, broken string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.schedule, k.broken
}

// file is the path of a drill's experiment: one that leads out of the folder, also by a link, is refused.
func (k *Keeper) file(p *experiments.Planned) (string, error) {
	root, err := filepath.EvalSymlinks(k.o.Experiments)
	if err != nil {
		return "", err
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(root, p.Experiment))
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(path, root+string(filepath.Separator)) {
		return "", fmt.Errorf("%s leads out of %s", p.Experiment, k.o.Experiments)
	}
	return path, nil
}

// Frozen says why nothing may start, or "".
func (k *Keeper) Frozen() string {
	s, _ := k.Schedule()
	switch by := k.book.Frozen(); {
	case by != nil:
		return "the schedule is frozen by " + by.By + " since " + by.At.UTC().Format("2006-01-02 15:04") + " UTC"
	case s.Freeze:
		return "the schedule is frozen: freeze is true in its file"
	case s.FreezeFile != "":
		if _, err := os.Lstat(s.FreezeFile); !errors.Is(err, fs.ErrNotExist) {
			return "the schedule is frozen: " + s.FreezeFile + " is there"
		}
	}
	return ""
}

// Freeze keeps everything from starting, until somebody thaws it. What runs goes on.
func (k *Keeper) Freeze(by string, frozen bool) error {
	kind := Thawed
	if frozen {
		kind = Frozen
	}
	defer k.poke()
	return k.book.Add(Entry{At: k.o.Now(), Kind: kind, By: by})
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Waiting are the drills that are due and kept from starting.
func (k *Keeper) Waiting() []Waiting {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Waiting
	for _, w := range k.waiting {
		all = append(all, w)
	}
	return all
}

// Planned lists what is due until then, by what may be told of it.
func (k *Keeper) Planned(until time.Time, most int) []due.Slot {
	s, _ := k.Schedule()
	return due.Planned(s, k.seed, k.o.Now(), until, most)
}

// Feed is an iCalendar of what is planned.
func (k *Keeper) Feed() []byte {
	s, _ := k.Schedule()
	return due.Feed(s, k.seed, k.o.Now(), k.Frozen())
}

const (
	tickMost  = 20 * time.Second // a schedule that was changed, and a freeze file, are seen within
	tickLeast = time.Second
	mostSlots = 1000 // of a drill that are looked at in one round: after an outage
	mostLines = 20   // of slots that were missed, one by one
)

// Run decides what is due until ctx ends; then it ends what runs, in order.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.book.Close()
	alive, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	for _, r := range k.book.Runs() {
		if r.End == nil {
			k.adopt(alive, r)
		}
	}
	for {
		next := k.tick(ctx, alive)
		timer := time.NewTimer(max(min(next.Sub(k.o.Now()), tickMost), tickLeast))
		select {
		case <-ctx.Done():
			timer.Stop()
			k.stopAll("the server was stopped")
			k.wg.Wait()
			return nil
		case <-k.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// tick decides all that is due, and says when something is next.
func (k *Keeper) tick(ctx, alive context.Context) (next time.Time) {
	if err := k.load(); err != nil {
		k.o.Say(fmt.Sprintf("schedule: %v; the one that was read before goes on", err))
	}
	s, _ := k.Schedule()
	now := k.o.Now()
	next = now.Add(tickMost)
	for i := range s.Drills {
		p := &s.Drills[i]
		if err := k.due(ctx, alive, s, p, now); err != nil {
			k.o.Say(fmt.Sprintf("drill %s: %v", p.Name, err))
		}
		if slot, ok := due.Next(p, k.seed, now); ok && slot.At.Before(next) {
			next = slot.At
		}
	}
	for _, r := range k.book.Requests() {
		if err := k.asked(ctx, alive, s, r, now); err != nil {
			k.o.Say(fmt.Sprintf("request %s: %v", r.Request, err))
		}
	}
	return next
}

// due decides the slots of a drill that are not decided yet.
func (k *Keeper) due(ctx, alive context.Context, s *experiments.Schedule, p *experiments.Planned, now time.Time) error {
	timing := timingOf(p)
	seen, was := k.book.Seen(p.Name)
	if seen.IsZero() || was != timing {
		return k.book.Add(Entry{At: now, Kind: Known, Drill: p.Name, Timing: timing})
	}
	slots, _ := due.Between(p, k.seed, seen, now, mostSlots)
	if len(slots) == 0 {
		return nil
	}
	if err := k.passed(p, slots[:len(slots)-1], now); err != nil {
		return err
	}
	slot := slots[len(slots)-1]
	w, waited := k.waits(p.Name)
	verb, why, request := k.decide(ctx, s, p, slot, now, waited && w.Slot.At.Equal(slot.At), nil)
	return k.act(alive, p, p.Name, slot, verb, why, request, "schedule")
}

// passed writes down slots after which another one has come.
func (k *Keeper) passed(p *experiments.Planned, slots []due.Slot, now time.Time) error {
	if len(slots) > mostLines {
		first, last := slots[0], slots[len(slots)-1]
		return k.unrun(Entry{At: now, Kind: Unrun, Drill: p.Name, Slot: first.At, Until: last.At, Count: len(slots), What: string(due.Missed),
			Why: fmt.Sprintf("the server was away when it was due, %d times", len(slots))}, p)
	}
	for _, slot := range slots {
		what, why := due.Missed, "the server was away when it was due"
		if w, ok := k.waits(p.Name); ok && w.Slot.At.Equal(slot.At) {
			what, why = due.Skipped, w.Why+", until its next time came"
			k.unwait(p.Name)
		}
		if err := k.unrun(Entry{At: now, Kind: Unrun, Drill: p.Name, Slot: slot.At, What: string(what), Why: why}, p); err != nil {
			return err
		}
	}
	return nil
}

func timingOf(p *experiments.Planned) string {
	if p.Between != nil {
		return p.Between.String()
	}
	return strings.TrimSpace(p.Cron + " " + p.Zone)
}

// decide asks what there is to ask of a drill that is due. request is the one that it is due by; nil = the schedule.
func (k *Keeper) decide(ctx context.Context, s *experiments.Schedule, p *experiments.Planned, slot due.Slot, now time.Time, waiting bool, request *Request) (due.Verb, string, *Request) {
	verb, why := due.Decide(s, p, slot, due.Facts{
		Now: now, Waiting: waiting || request != nil,
		Frozen: k.Frozen,
		Unapproved: func() (why string) {
			if request == nil && p.Approval != "" {
				request, why = k.approvedFor(p, slot)
			}
			return why
		},
		Busy: func() string { return k.busy(p) },
		Loud: func() string { return k.loud(ctx, p) },
	})
	return verb, why, request
}

// act does what was decided. key is what it waits under.
func (k *Keeper) act(alive context.Context, p *experiments.Planned, key string, slot due.Slot, verb due.Verb, why string, request *Request, by string) error {
	switch verb {
	case due.Wait:
		k.mu.Lock()
		k.waiting[key] = Waiting{Slot: slot, Until: slot.At.Add(p.Wait), Why: why}
		k.mu.Unlock()
		return nil
	case due.Start:
		k.unwait(key)
		return k.start(alive, p, slot, request, by)
	}
	k.unwait(key)
	e := Entry{At: k.o.Now(), Kind: Unrun, Drill: p.Name, Slot: slot.At, What: string(verb), Why: why, By: by}
	if request != nil {
		e.Request = request.Request
	}
	return k.unrun(e, p)
}

func (k *Keeper) waits(key string) (Waiting, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.waiting[key]
	return w, ok
}

func (k *Keeper) unwait(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, key)
}

// unrun writes down that a drill was not started, and tells it.
func (k *Keeper) unrun(e Entry, p *experiments.Planned) error {
	if err := k.book.Add(e); err != nil {
		return err
	}
	k.o.Say(fmt.Sprintf("drill %s: %s: %s", e.Drill, e.What, e.Why))
	k.tell(notice.Event{ID: rand.Text(), Kind: notice.Unrun, Drill: e.Drill, Experiment: p.Experiment, Why: e.What + ": " + e.Why, At: e.At, Labels: p.Labels})
	return nil
}

func (k *Keeper) tell(e notice.Event) {
	if k.o.Tell == nil {
		return
	}
	if e.Run != "" && k.o.Link != nil {
		e.Link = k.o.Link(e.Run)
	}
	k.o.Tell(e)
}

// For says for a person what a drill waits for at most.
func (w *Waiting) For(now time.Time) string {
	return figures.Spell(max(w.Until.Sub(now), 0).Truncate(time.Second))
}

// Check reads the schedule, and looks for its experiments and the secrets of its notices: what is wrong with them is known before
// anything listens. The schedule's problems are of type experiments.Problems.
func (o *Options) Check() error {
	k := &Keeper{o: *o}
	if err := k.check(); err != nil {
		return err
	}
	return notice.Check(k.schedule.Notices)
}

// check reads the schedule, and finds the file of each drill within the folder.
func (k *Keeper) check() error {
	if info, err := os.Stat(k.o.Experiments); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: no such folder: it is where the experiment files of the schedule are", k.o.Experiments)
	}
	if err := k.load(); err != nil {
		return err
	}
	for i := range k.schedule.Drills {
		if _, err := k.file(&k.schedule.Drills[i]); err != nil {
			return fmt.Errorf("%s: drill %s: %w", k.o.Schedule, k.schedule.Drills[i].Name, err)
		}
	}
	return nil
}
