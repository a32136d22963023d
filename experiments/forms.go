package experiments

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// The defaults, as docs/experiment-file.md lists them.

func (e *Experiment) setDefaults() {
	e.Environment = "local"
	e.Redis.Mode = RedisAuto
	e.Proxy.Mode = ProxyEmbedded
	e.System.Restart = 500 * time.Millisecond
	e.TimeScale = 1
	e.SteadyState = SteadyState{For: 2 * time.Second, Timeout: 30 * time.Second}
	e.Probes.LockKeys = keyLooks
	e.Probes.Ledger = ProbeSettings{Every: 10 * time.Millisecond, MaxGap: 50 * time.Millisecond}
	e.Probes.Leases = leaseLooks
	e.Limits.MaxRun = 10 * time.Minute
}

// How often a store of keys is looked at, and an API server.
var (
	keyLooks   = ProbeSettings{Every: 5 * time.Millisecond, MaxGap: 50 * time.Millisecond}
	leaseLooks = ProbeSettings{Every: 100 * time.Millisecond, MaxGap: time.Second}
)

func (w *Work) setDefaults()  { w.Fenced, w.Look = true, true }
func (f *Fault) setDefaults() { f.Repeat = Repeat{Count: 1, Settled: true} }

// The types whose spelling in a file is not their fields, one by one.

type holdForm struct {
	P50 time.Duration `rule:"required,positive"` // half of all jobs take at most this
	P99 time.Duration `rule:"positive"`          // 99 of 100 jobs take at most this; left out: every job takes p50
}

func (h *Hold) form() any { return (*holdForm)(h) }

// setForm makes work constant where only its median is given.
func (h *Hold) setForm(_ *decoder, _ string, form any) {
	*h = Hold(*form.(*holdForm))
	if h.P99 == 0 {
		h.P99 = h.P50
	}
}

type repeatForm struct {
	Count  int     `rule:"min=1,max=10000"` // shots
	Every  cadence // settled: when the last shot has settled; else a period
	Until  string  `rule:"words=answered"`  // answered: kills go on until every percentile that is promised of the lock's takeover and tick gap is answered
	AtMost int     `rule:"min=1,max=10000"` // until answered: shots, at most
}

func (r *Repeat) form() any {
	f := &repeatForm{Count: r.Count, Every: cadence{settled: r.Settled, every: r.Every}}
	if r.Answered {
		f.Count, f.AtMost, f.Until = 0, r.Count, untilAnswered
	}
	return f
}

const untilAnswered = "answered"

func (r *Repeat) setForm(d *decoder, path string, form any) {
	f := form.(*repeatForm)
	*r = Repeat{Count: f.Count, Answered: f.Until == untilAnswered, Settled: f.Every.settled, Every: f.Every.every}
	count, most := d.places[path+".count"], d.places[path+".at_most"]
	switch {
	case !r.Answered:
		if most != nil && d.places[path+".until"] == nil {
			d.add(path+".at_most", most, "goes with until: answered; a fixed number of shots is count")
		}
		return
	case count != nil:
		d.add(path+".count", count, "a fixed number of shots is judged as one: leave count out, or until")
	case most == nil:
		d.add(path, d.place(path), "until: answered needs at_most: the shots after which it ends without an answer")
	}
	r.Count = max(1, f.AtMost)
}

type overlapForm struct {
	Level   string   `rule:"required,words=belief|work|effect"` // of whom two may overlap: belief and work are a time, effect is a count
	Max     *amount  // at most this
	Min     *amount  // at least this
	Exactly *amount  // just this
	AtMost  *float64 // at most this share of what lock of has
	AtLeast *float64 // at least this share of what lock of has
	Of      string   // the lock that at_most and at_least compare with
}

func (o *OverlapLimit) form() any {
	if o.Level == "effect" {
		b := &o.Count
		f := &overlapForm{Level: o.Level, AtMost: b.AtMost, AtLeast: b.AtLeast, Of: b.Of}
		for to, from := range map[**amount]*int{&f.Max: b.Max, &f.Min: b.Min, &f.Exactly: b.Exactly} {
			if from != nil {
				*to = &amount{isCount: true, count: *from}
			}
		}
		return f
	}
	b := &o.Time
	f := &overlapForm{Level: o.Level, AtMost: b.AtMost, AtLeast: b.AtLeast, Of: b.Of}
	for to, from := range map[**amount]*time.Duration{&f.Max: b.Max, &f.Min: b.Min, &f.Exactly: b.Exactly} {
		if from != nil {
			*to = &amount{time: *from}
		}
	}
	return f
}

func (o *OverlapLimit) setForm(d *decoder, path string, form any) {
	f := form.(*overlapForm)
	*o = OverlapLimit{Level: f.Level}
	if f.Level == "effect" {
		o.Count = Bound[int]{AtMost: f.AtMost, AtLeast: f.AtLeast, Of: f.Of}
	} else {
		o.Time = Bound[time.Duration]{AtMost: f.AtMost, AtLeast: f.AtLeast, Of: f.Of}
	}
	for _, x := range []struct {
		name  string
		from  *amount
		count **int
		time  **time.Duration
	}{{"max", f.Max, &o.Count.Max, &o.Time.Max}, {"min", f.Min, &o.Count.Min, &o.Time.Min}, {"exactly", f.Exactly, &o.Count.Exactly, &o.Time.Exactly}} {
		at := path + "." + x.name
		switch {
		case x.from == nil:
		case f.Level == "effect":
			*x.count = &x.from.count
			if !x.from.isCount && !d.touched(path) {
				d.add(at, d.place(at), "overlap of effects is a count, not a time: write %s: 0", x.name)
			}
		default:
			*x.time = &x.from.time
			if x.from.isCount && !d.touched(path) {
				d.add(at, d.place(at), "overlap of %s is a time: %ds?", f.Level, x.from.count)
			}
		}
	}
}

// busyForm takes max_count and max_time for the maxima of count and time.
type busyForm struct {
	Count    *Bound[int]           `rule:"brief"` // refusals
	Time     *Bound[time.Duration] `rule:"brief"` // how long there were refusals, in all
	Each     *Bound[time.Duration] `rule:"brief"` // how long every refused acquire waited
	MaxCount *int                  // the max of count
	MaxTime  *time.Duration        // the max of time
}

func (b *BusyLimit) form() any { return &busyForm{Count: b.Count, Time: b.Time, Each: b.Each} }

func (b *BusyLimit) setForm(d *decoder, path string, form any) {
	f := form.(*busyForm)
	*b = BusyLimit{Count: f.Count, Time: f.Time, Each: f.Each}
	both := func(name, old string) {
		d.add(path+"."+old, d.place(path+"."+old), "is the max of %s, which is given too: write it there", name)
	}
	if f.MaxCount != nil {
		if b.Count != nil {
			both("count", "max_count")
		}
		b.Count = AtMost(*f.MaxCount)
	}
	if f.MaxTime != nil {
		if b.Time != nil {
			both("time", "max_time")
		}
		b.Time = AtMost(*f.MaxTime)
	}
}

// lockForm is a lock in a file: with a profile and perhaps overrides of it, or with a policy of its own, which is complete:
// then profile only says where it came from.
type lockForm struct {
	Name      string `rule:"required,ident"` // how faults and SLOs name it
	Profile   string // a shipped policy, such as cordum/scheduler-job; beside policy only a label
	Key       string // the one key of a leader loop; default: the profile's, or the lock's name
	KeyPrefix string // what stands before a job's id; default: the profile's, or the lock's name and a colon
	Lease     string // observed loops: the lock is the Lease object of this name; it has no key
	overrides
	Policy      *lockcore.Policy // a complete policy of your own, instead of a profile's
	AbandonedBy *Signal          // observed: what tells how often the lock was given up, which nobody claims
}

// overrides change single values of a profile's policy, or are all that a lock says of its own.
type overrides struct {
	TTL         *time.Duration  `rule:"positive"` // instead of the profile's ttl
	RenewEvery  *time.Duration  // instead of the profile's renew_every
	RenewJitter *float64        `rule:"max=1"`                                                       // instead of the profile's renew_jitter
	Class       *lockcore.Class `rule:"words=standard|legacy_count|critical|continuity|legacy_warn"` // instead of the profile's class
	MaxFailures *int            // instead of the profile's max_failures
	OpTimeout   *time.Duration  `rule:"positive"` // instead of the profile's op_timeout
	Drift       *time.Duration  // instead of the profile's drift
	StopBudget  *time.Duration  // instead of the profile's stop_budget
	Poll        *time.Duration  `rule:"positive"` // instead of the poll of the profile's loop
	Tick        *time.Duration  // instead of the tick of the profile's loop
}

func (l *Lock) form() any {
	f := &lockForm{Name: l.Name, Profile: l.Profile, Key: l.Key, KeyPrefix: l.KeyPrefix, Lease: l.Lease, AbandonedBy: l.AbandonedBy}
	if l.Policy != (lockcore.Policy{}) {
		f.Policy = &l.Policy
	}
	return f
}

func (l *Lock) setForm(d *decoder, path string, form any) {
	f := form.(*lockForm)
	d.given(path+".profile", f.Profile)
	d.given(path+".key", f.Key)
	d.given(path+".key_prefix", f.KeyPrefix)
	d.given(path+".lease", f.Lease)
	*l = Lock{Name: f.Name, Profile: f.Profile, Key: f.Key, KeyPrefix: f.KeyPrefix, Lease: f.Lease, AbandonedBy: f.AbandonedBy, Place: d.where(path)}
	switch {
	case d.touched(path):
		return
	case f.Policy != nil:
		whole := assumed{Policy: f.Policy}
		whole.fill()
		l.Policy, l.Assumed = *f.Policy, whole.said
		d.refuseOverrides(path)
		d.label(path+".profile", f.Profile)
	case f.Profile == "" && f.TTL == nil:
		d.add(path, d.place(path), "a lock needs a ttl, a profile or a policy: {name: leader, ttl: 12s, poll: 2s} is a leader loop, without poll it is taken per job")
		return
	case f.Profile == "":
		short := shortPolicy(&f.overrides)
		l.Policy, l.Assumed = *short.Policy, short.said
	case !l.expand(d, path, f):
		return
	}
	if l.Lease != "" {
		l.nameLease(d, path, f)
		return
	}
	l.nameKeys(d, path)
}

// nameLease takes the object's name for the lock's key.
func (l *Lock) nameLease(d *decoder, path string, f *lockForm) {
	for name, given := range map[string]string{"key": f.Key, "key_prefix": f.KeyPrefix} {
		if given != "" && given != l.Lease {
			d.add(path+"."+name, d.place(path+"."+name), "the lock is Lease %s: it has no key of its own", l.Lease)
		}
	}
	l.Key, l.KeyPrefix = l.Lease, ""
}

// expand takes policy and keys from the profile, as far as the file does not give its own.
func (l *Lock) expand(d *decoder, path string, f *lockForm) bool {
	base, err := Profile(f.Profile)
	if err != nil {
		d.add(path+".profile", d.place(path+".profile"), "%s", err)
		return false
	}
	l.Policy = base.Policy
	if l.Key == "" {
		l.Key = base.Key
	}
	if l.KeyPrefix == "" {
		l.KeyPrefix = base.KeyPrefix
	}
	o, p := &f.overrides, &l.Policy
	o.apply(p)
	if p.Loop != nil {
		override(&p.Loop.Poll, o.Poll)
		override(&p.Loop.Tick, o.Tick)
	} else if o.Poll != nil || o.Tick != nil {
		d.add(path, d.place(path), "poll and tick are of leader loops; %s is taken per job", f.Profile)
		return false
	}
	return true
}

// apply puts what is given into a policy; poll and tick are of its loop.
func (o *overrides) apply(p *lockcore.Policy) {
	override(&p.TTL, o.TTL)
	override(&p.RenewEvery, o.RenewEvery)
	override(&p.RenewJitter, o.RenewJitter)
	override(&p.Class, o.Class)
	override(&p.MaxFailures, o.MaxFailures)
	override(&p.OpTimeout, o.OpTimeout)
	override(&p.Drift, o.Drift)
	override(&p.StopBudget, o.StopBudget)
}

func override[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (d *decoder) refuseOverrides(path string) {
	for _, name := range overrideNames() {
		at := join(path, name)
		if n := d.places[at]; n != nil {
			d.add(at, n, "changes a profile's policy: with a policy section, write it there")
		}
	}
}

// label refuses a profile beside a policy that is no name of one, such as a path: no file is read for it.
func (d *decoder) label(path, name string) {
	family, rest, parted := strings.Cut(name, "/")
	if name != "" && (!identifier().MatchString(family) || parted && !identifier().MatchString(rest)) {
		d.add(path, d.place(path), "%q is no name of a profile: beside a policy it is only a label, such as acme/scheduler", name)
	}
}

// nameKeys gives a lock without a key of its own one that is made of its name.
func (l *Lock) nameKeys(d *decoder, path string) {
	switch {
	case l.Loop() && l.KeyPrefix != "":
		d.add(path+".key_prefix", d.place(path+".key_prefix"), "a leader loop has one key: give key, not key_prefix")
	case !l.Loop() && l.Key != "":
		d.add(path+".key", d.place(path+".key"), "the lock is taken per job: give key_prefix, not key; a leader loop has a poll")
	case l.Loop() && l.Key == "":
		l.Key = l.Name
	case !l.Loop() && l.KeyPrefix == "":
		l.KeyPrefix = fmt.Sprintf("%s:", l.Name)
	}
}

func overrideNames() []string { return fieldNames(reflect.TypeFor[overrides]()) }
