package effects

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Map says which column of an entry means what, as the file has it.
type Map struct {
	Job      string
	State    string
	Terminal []string
	Begin    []string
	Op       string
	Fence    string
	Replica  string
	Token    string
	Key      string

	Due       string
	NotBefore string

	Traceparent string
}

// Options say what the entries of a source are about.
type Options struct {
	Name   string // of the probe
	Lock   string
	Key    string // of a loop; "" = the lock is taken per job
	Prefix string // of the keys of jobs
	Suffix string // likewise
	Map    Map
	Sparse bool // not everything that the source gives is an entry: lines of a log

	Lives  func(named string) string // the incarnation that a replica's name means now; nil = none is known
	Expect func(lock, key string)    // told of each key under which something was written; nil = nobody
}

// Probe gives what a source has as entries of the history. Looks are made one after the other.
type Probe struct {
	Options
	from Reader

	pos    int64
	reads  int64
	begun  bool
	first  int64 // start of the first look
	absent int64 // start of the last look that saw all there was
	told   map[string]bool
	lost   error
}

// New returns a probe of a source.
func New(from Reader, o Options) *Probe {
	if o.Map.Job == "" {
		o.Map.Job = fieldColumn
	}
	return &Probe{Options: o, from: from, told: map[string]bool{}}
}

// Close closes the source.
func (p *Probe) Close() error { return p.from.Close() }

// Look gives an entry for each that is new. An error that says that entries were lost stays, and the look that finds it out tells it by
// an event.
func (p *Probe) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	if p.lost != nil {
		return nil, p.lost
	}
	batch, err := p.from.Read(ctx, final)
	if err != nil {
		return nil, fmt.Errorf("read effects %s: %w", p.Name, err)
	}
	now := time.Now()
	return func(at history.Span) []history.Event {
		p.reads++
		if !p.begun {
			p.begun, p.first, p.absent = true, at.From, at.From
		}
		events, why := p.entries(batch.Entries, at, now)
		for _, u := range batch.Unread {
			u.Source = p.Name
			events = append(events, history.Event{Kind: history.UnreadKind, Span: u.At, Source: p.source(), Unread: &u.Unread})
		}
		if why = cmp.Or(batch.Lost, why); why != "" {
			p.lost = fmt.Errorf("effects %s: %s", p.Name, why)
			return append(events, history.Event{Kind: history.StoreIncarnation, Span: history.Span{From: p.absent, To: at.To}, Source: p.source(),
				Incarnation: &history.Incarnation{Store: p.Name, Life: 2, Why: history.EntriesLost}})
		}
		if !batch.Partial {
			p.absent = at.From
		}
		return events
	}, nil
}

func (p *Probe) source() string { return "probe:" + p.Name }

// entries makes events of entries up to the first that is none by the map; why says so. now is what the wall clock says at the end of at.
func (p *Probe) entries(all []Entry, at history.Span, now time.Time) (events []history.Event, why string) {
	var undated history.Unread
	for _, x := range all {
		e, missing := p.entry(x.Row)
		if missing != "" && p.Sparse {
			continue
		}
		if missing != "" {
			return events, fmt.Sprintf("an entry has no column %s: it has %s", missing, x.columns())
		}
		p.pos++
		e.Entry.Pos, e.Entry.Unordered = p.pos, x.Unordered
		e.Entry.Writer = x.Writer
		if named, ok := x.Get(p.Map.Replica); ok && x.Writer == "" && p.Lives != nil {
			e.Entry.Writer = p.Lives(named)
		}
		switch {
		case x.At != nil:
			e.Span = *x.At
		case x.Late:
			e.Span = history.Span{From: p.first, To: at.To}
		default:
			e.Span = history.Span{From: p.absent, To: at.To}
			if x.Unordered {
				e.Entry.Read = p.reads
			}
		}
		if p.Expect != nil && !p.told[e.Key] {
			p.told[e.Key] = true
			p.Expect(p.Lock, e.Key)
		}
		var wrong string
		if e.Entry.Due, wrong = p.Map.due(x.Row, at.To, now); wrong != "" {
			if undated.Count++; undated.Count == 1 {
				undated.Source, undated.Reason, undated.Detail = p.Name, history.Unparsable, wrong
			}
		}
		events = append(events, e)
	}
	if undated.Count > 0 {
		events = append(events, history.Event{Kind: history.UnreadKind, Span: at, Source: p.source(), Unread: &undated})
	}
	return events, ""
}

// entry is the event that a row means, without position and bracket; missing names a column that it needs and does not have.
func (p *Probe) entry(r Row) (e history.Event, missing string) {
	body := &history.Entry{Subject: p.Lock, Loop: p.Key != "", State: history.StateTick, Accepted: true, Foreign: true}
	e = history.Event{Kind: history.LedgerEntry, Source: p.source(), Lock: p.Lock, Key: p.Key, Entry: body}
	if p.Key == "" {
		job, ok := r.Get(p.Map.Job)
		if !ok || job == "" {
			return e, p.Map.Job
		}
		state, ok := r.Get(p.Map.State)
		if !ok || state == "" {
			return e, p.Map.State
		}
		body.Subject, body.State, body.Terminal = witness.Cut(job), witness.Cut(state), slices.Contains(p.Map.Terminal, state)
		e.Key = p.Prefix + job + p.Suffix
		if key, ok := r.Get(p.Map.Key); ok && key != "" {
			e.Key = key
		}
	}
	if trace, ok := r.Get(p.Map.Traceparent); ok && traceparent.MatchString(trace) {
		body.Trace = trace
	}
	if token, ok := r.Get(p.Map.Token); ok {
		e.Epoch = lockcore.Fingerprint(token)
	}
	if fence, ok := r.Get(p.Map.Fence); ok {
		e.Fence, _ = strconv.ParseInt(fence, 10, 64) // 0 = not known
	}
	if op, ok := r.Get(p.Map.Op); ok {
		e.Op = witness.Cut(op)
	}
	return e, ""
}

// Check holds the map against rows of the source: a column that none of them has is no column.
func (p *Probe) Check(rows []Row) error {
	if len(rows) == 0 || p.Sparse {
		return nil
	}
	m := &p.Map
	wanted := []string{m.Op, m.Fence, m.Replica, m.Token, m.Key}
	if p.Key == "" {
		wanted = append([]string{m.Job, m.State}, wanted...)
	}
	for _, column := range wanted {
		head, _, _ := strings.Cut(column, ".")
		has := func(r Row) bool {
			_, ok := r.Get(column)
			return ok || r[head] == "{}" // an object of which nothing is known yet
		}
		if column != "" && !slices.ContainsFunc(rows, has) {
			return Declared("no entry has the column %s that map names: there are %s", column, rows[len(rows)-1].columns())
		}
	}
	return nil
}

// Last says of the last n entries what the map makes of them, the newest last. When a job is due is there in Unix time.
func (p *Probe) Last(ctx context.Context, n int) ([]history.Event, error) {
	wanted := n
	if p.Sparse {
		wanted = manyLines
	}
	rows, err := p.from.Last(ctx, wanted)
	if err != nil {
		return nil, err
	}
	known := rows
	if from, ok := p.from.(interface{ Columns() []string }); ok && len(rows) == 0 { // a query has columns without rows
		empty := Row{}
		for _, column := range from.Columns() {
			empty[column] = "{}"
		}
		known = []Row{empty}
	}
	if err := p.Check(known); err != nil {
		return nil, err
	}
	var all []history.Event
	now := time.Now()
	for _, r := range rows {
		if e, missing := p.entry(r); missing == "" {
			var wrong string
			if e.Entry.Due, wrong = p.Map.due(r, now.UnixNano(), now); wrong != "" {
				return nil, Declared("%s", wrong)
			}
			if named, ok := r.Get(p.Map.Replica); ok {
				e.Entry.Writer = witness.Cut(named)
			}
			all = append(all, e)
		}
	}
	return all[max(0, len(all)-n):], nil
}

// traceparent is a trace context of W3C's version 00.
var traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// manyLines are looked through for entries where not every line is one.
const manyLines = 10_000
