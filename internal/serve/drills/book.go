package drills

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Kind of an entry.
type Kind string

const (
	Known    Kind = "known"    // a drill is in the schedule since then, by these times
	Unrun    Kind = "unrun"    // a drill was due, or asked for, and was not started
	Started  Kind = "started"  // written before its process
	Ended    Kind = "ended"    // its process has ended, and nothing of it is left, or What says so
	Asked    Kind = "asked"    // somebody wants a run
	Approved Kind = "approved" // somebody else agrees
	Dropped  Kind = "dropped"  // a request is withdrawn
	Frozen   Kind = "frozen"   // nothing starts
	Thawed   Kind = "thawed"
)

// What became of a drill, beside the verbs of package due.
const (
	Refused = "refused" // a guard of the run said no
	Failed  = "failed"  // the run did not come to a drill
	Aborted = "aborted" // the server ended while it ran
)

// Entry is one line of the book.
type Entry struct {
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	Drill   string    `json:"drill,omitempty"`
	Slot    time.Time `json:"slot,omitzero"`     // the time for which it was planned
	Until   time.Time `json:"until,omitzero"`    // of several slots in one entry: the last; of a request: when it is void
	Count   int       `json:"count,omitempty"`   // of several slots in one entry
	Run     string    `json:"run,omitempty"`     // folder
	Request string    `json:"request,omitempty"` // its id
	By      string    `json:"by,omitempty"`      // who asked, approved, stopped; "schedule"
	Hash    string    `json:"hash,omitempty"`    // of the plan
	What    string    `json:"what,omitempty"`    // what became of it
	Verdict string    `json:"verdict,omitempty"` // of an ended run
	Exit    int       `json:"exit,omitempty"`    // of its process
	Why     string    `json:"why,omitempty"`
	Timing  string    `json:"timing,omitempty"` // of a known drill
}

// Request is somebody's wish for a run.
type Request struct {
	Entry
	ApprovedBy string
	ApprovedAt time.Time
	Used       string // the run that came of it
	Closed     bool   // used, withdrawn, or void
}

// Run is a run that the server has started.
type Run struct {
	Entry        // of its start
	End   *Entry // nil = it goes on
}

const (
	mostKept  = 500      // runs, and drills that did not run, in memory
	mostBytes = 16 << 20 // of a book: beyond that the oldest lines are dropped when it is opened
	keptLines = 5000
)

// Book is the record of what was planned and what came of it: a file of lines that only grows. A line that was cut off was not written.
type Book struct {
	mu       sync.Mutex
	file     *os.File
	seen     map[string]time.Time // by drill: up to when its slots are decided
	timing   map[string]string
	runs     []*Run
	unrun    []Entry
	requests []*Request
	frozen   *Entry
	counts   map[[2]string]int // by drill and what became of it
}

// OpenBook reads the book, or begins one.
func OpenBook(path string) (*Book, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the record of drills: %w", err)
	}
	b := &Book{file: f, seen: map[string]time.Time{}, timing: map[string]string{}, counts: map[[2]string]int{}}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	n := 0
	for line := range bytes.Lines(data[:whole]) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, errors.Join(fmt.Errorf("%s:%d: no entry of the record of drills: %w; move the file away to begin a new one", path, n+1, err), f.Close())
		}
		b.take(e)
		n++
	}
	if err := errors.Join(f.Truncate(int64(whole)), seekEnd(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if whole > mostBytes {
		if err := b.shorten(path, data[:whole], n); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return b, nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

// shorten writes the book anew: how far each drill is decided, and the last lines.
func (b *Book) shorten(path string, data []byte, n int) error {
	var text bytes.Buffer
	for drill, at := range b.seen {
		line, err := json.Marshal(Entry{At: at, Kind: Known, Drill: drill, Timing: b.timing[drill]})
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	i := 0
	for line := range bytes.Lines(data) {
		if i++; i > n-keptLines {
			text.Write(line)
		}
	}
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	old := b.file
	b.file = f
	return old.Close()
}

// Add writes an entry down. It is on the disk when Add returns.
func (b *Book) Add(e Entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err = b.file.Write(append(line, '\n')); err == nil {
		err = b.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the record of drills: %w", err)
	}
	b.take(e)
	return nil
}

// take folds an entry into what is known.
func (b *Book) take(e Entry) {
	switch e.Kind {
	case Known:
		b.seen[e.Drill], b.timing[e.Drill] = e.At, e.Timing
	case Unrun:
		b.decided(e, max(e.Count, 1), e.What)
		if b.unrun = append(b.unrun, e); len(b.unrun) > 2*mostKept {
			b.unrun = slices.Clone(b.unrun[mostKept:])
		}
	case Started:
		b.decided(e, 0, "")
		if b.runs = append(b.runs, &Run{Entry: e}); len(b.runs) > 2*mostKept {
			b.runs = slices.Clone(b.runs[mostKept:])
		}
		if r := b.request(e.Request); r != nil {
			r.Used = e.Run
		}
	case Ended:
		if r := b.run(e.Run); r != nil {
			r.End = &e
		}
		b.counts[[2]string{e.Drill, outcome(e)}]++
	case Asked:
		b.requests = append(b.requests, &Request{Entry: e})
	case Approved:
		if r := b.request(e.Request); r != nil {
			r.ApprovedBy, r.ApprovedAt = e.By, e.At
		}
	case Dropped:
		if r := b.request(e.Request); r != nil {
			r.Closed = true
		}
	case Frozen:
		b.frozen = &e
	case Thawed:
		b.frozen = nil
	}
}

func outcome(e Entry) string {
	if e.Verdict != "" {
		return e.Verdict
	}
	return e.What
}

// decided notes that slots are done with, and closes the request that led there.
func (b *Book) decided(e Entry, n int, what string) {
	if e.Request == "" || !e.Slot.IsZero() {
		last := e.Slot
		if !e.Until.IsZero() {
			last = e.Until
		}
		if last.After(b.seen[e.Drill]) {
			b.seen[e.Drill] = last
		}
	}
	if n > 0 {
		b.counts[[2]string{e.Drill, what}] += n
	}
	if r := b.request(e.Request); r != nil {
		r.Closed = true
	}
}

func (b *Book) request(id string) *Request {
	for _, r := range b.requests {
		if id != "" && r.Request == id {
			return r
		}
	}
	return nil
}

func (b *Book) run(id string) *Run {
	for _, r := range slices.Backward(b.runs) {
		if r.Run == id {
			return r
		}
	}
	return nil
}

// What the book knows, copied.

// Seen is up to when the slots of a drill are decided, and by which times it was known.
func (b *Book) Seen(drill string) (at time.Time, timing string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[drill], b.timing[drill]
}

// Runs are the runs that were started, the latest first.
func (b *Book) Runs() []Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Run
	for _, r := range slices.Backward(b.runs) {
		all = append(all, *r)
	}
	return all
}

// NotRun are the drills that did not run, the latest first: those that were not started, and those that came to no drill.
func (b *Book) NotRun() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.unrun)
	for _, r := range b.runs {
		if r.End != nil && r.End.Verdict == "" {
			e := *r.End
			e.Slot = r.Slot
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(x, y Entry) int { return y.At.Compare(x.At) })
	return all[:min(len(all), mostKept)]
}

// Requests are those that are neither used nor void, the latest first.
func (b *Book) Requests() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Request
	for _, r := range slices.Backward(b.requests) {
		if !r.Closed && r.Used == "" {
			all = append(all, *r)
		}
	}
	return all
}

// Frozen says who has frozen the schedule; nil = nobody.
func (b *Book) Frozen() *Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frozen
}

// Counts are how often each drill came to what, since the book began.
func (b *Book) Counts() map[[2]string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[[2]string]int{}
	for k, n := range b.counts {
		all[k] = n
	}
	return all
}

// Before is the verdict of the drill's run that ended before this one; "" = there is none.
func (b *Book) Before(drill, run string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range slices.Backward(b.runs) {
		if r.Drill == drill && r.Run != run && r.End != nil && r.End.Verdict != "" {
			return r.End.Verdict
		}
	}
	return ""
}

// Close closes the file.
func (b *Book) Close() error { return b.file.Close() }
