package experiments

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
	"github.com/lockdrill/lockdrill/lockcore"
)

// The defaults that no single field can declare.

// SetDefaults sets how often a run looks.
func (p *Probes) SetDefaults() {
	p.LockKeys = keyLooks
	p.Ledger = ProbeSettings{Every: 10 * time.Millisecond, MaxGap: 50 * time.Millisecond}
	p.Leases = leaseLooks
}

// How often a store of keys is looked at, and an API server.
var (
	keyLooks   = ProbeSettings{Every: 5 * time.Millisecond, MaxGap: 50 * time.Millisecond}
	leaseLooks = ProbeSettings{Every: 100 * time.Millisecond, MaxGap: time.Second}
)

// SetDefaults makes a fault strike once.
func (r *Repeat) SetDefaults() { *r = Repeat{Count: 1, Settled: true} }

// The types whose spelling in a file is not their fields, one by one.

type holdForm struct {
	P50 time.Duration `rule:"required,positive"` // half of all jobs take less
	P99 time.Duration `rule:"positive"`          // 99 of 100 jobs take less; left out: all take p50
}

func (h *Hold) Spelling() any { return (*holdForm)(h) }

// setForm makes work constant where only its median is given.
func (h *Hold) SetSpelling(_ *vocab.File, _ string, spelling any) {
	*h = Hold(*spelling.(*holdForm))
	if h.P99 == 0 {
		h.P99 = h.P50
	}
}

type repeatForm struct {
	Count  int     `rule:"min=1,max=10000"` // shots
	Every  cadence // settled: when the last shot has settled; else a period
	Until  string  `rule:"words=answered"`  // answered: kills go on until every promised percentile of takeover and tick gap is answered
	AtMost int     `rule:"min=1,max=10000"` // until answered: most shots
}

func (r *Repeat) Spelling() any {
	f := &repeatForm{Count: r.Count, Every: cadence{settled: r.Settled, every: r.Every}}
	if r.Answered {
		f.Count, f.AtMost, f.Until = 0, r.Count, untilAnswered
	}
	return f
}

const untilAnswered = "answered"

func (r *Repeat) SetSpelling(f *vocab.File, path string, spelling any) {
	in := spelling.(*repeatForm)
	*r = Repeat{Count: in.Count, Answered: in.Until == untilAnswered, Settled: in.Every.settled, Every: in.Every.every}
	count, most := f.Node(path+".count"), f.Node(path+".at_most")
	switch {
	case !r.Answered:
		if most != nil && f.Node(path+".until") == nil {
			f.Add(path+".at_most", most, "goes with until: answered; a fixed number of shots is count")
		}
		return
	case count != nil:
		f.Add(path+".count", count, "a fixed number of shots is judged as one: leave count out, or until")
	case most == nil:
		f.Add(path, f.Place(path), "until: answered needs at_most: the shots after which it ends without an answer")
	}
	r.Count = max(1, in.AtMost)
}

type overlapForm struct {
	Level   string   `rule:"required,words=belief|work|lease|effect"` // belief, work and lease are a time, effect is a count
	Max     *amount  // at most this
	Min     *amount  // at least this
	Exactly *amount  // just this
	AtMost  *float64 // at most this share of the other lock's
	AtLeast *float64 // at least this share of the other lock's
	Of      string   // the other lock
}

func (o *OverlapLimit) Spelling() any {
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

func (o *OverlapLimit) SetSpelling(f *vocab.File, path string, spelling any) {
	in := spelling.(*overlapForm)
	*o = OverlapLimit{Level: in.Level}
	if in.Level == "effect" {
		o.Count = Bound[int]{AtMost: in.AtMost, AtLeast: in.AtLeast, Of: in.Of}
	} else {
		o.Time = Bound[time.Duration]{AtMost: in.AtMost, AtLeast: in.AtLeast, Of: in.Of}
	}
	for _, x := range []struct {
		name  string
		from  *amount
		count **int
		time  **time.Duration
	}{{"max", in.Max, &o.Count.Max, &o.Time.Max}, {"min", in.Min, &o.Count.Min, &o.Time.Min}, {"exactly", in.Exactly, &o.Count.Exactly, &o.Time.Exactly}} {
		at := path + "." + x.name
		switch {
		case x.from == nil:
		case in.Level == "effect":
			*x.count = &x.from.count
			if !x.from.isCount && !f.Invalid(path) {
				f.Add(at, f.Place(at), "overlap of effects is a count, not a time: write %s: 0", x.name)
			}
		default:
			*x.time = &x.from.time
			if x.from.isCount && !f.Invalid(path) {
				f.Add(at, f.Place(at), "overlap of %s is a time: %ds?", in.Level, x.from.count)
			}
		}
	}
}

// busyForm takes max_count and max_time for the maxima of count and time.
type busyForm struct {
	Count    *Bound[int]           `rule:"shorthand"` // refusals
	Time     *Bound[time.Duration] `rule:"shorthand"` // refusals in all, as time
	Each     *Bound[time.Duration] `rule:"shorthand"` // how long each refused acquire waited
	MaxCount *int                  // the max of count
	MaxTime  *time.Duration        // the max of time
}

func (b *BusyLimit) Spelling() any { return &busyForm{Count: b.Count, Time: b.Time, Each: b.Each} }

func (b *BusyLimit) SetSpelling(f *vocab.File, path string, spelling any) {
	in := spelling.(*busyForm)
	*b = BusyLimit{Count: in.Count, Time: in.Time, Each: in.Each}
	both := func(name, old string) {
		f.Add(path+"."+old, f.Place(path+"."+old), "is the max of %s, which is given too: write it there", name)
	}
	if in.MaxCount != nil {
		if b.Count != nil {
			both("count", "max_count")
		}
		b.Count = AtMost(*in.MaxCount)
	}
	if in.MaxTime != nil {
		if b.Time != nil {
			both("time", "max_time")
		}
		b.Time = AtMost(*in.MaxTime)
	}
}

// lockForm is a lock in a file: with a profile and perhaps overrides of it, or with a policy of its own, which is complete:
// then profile only says where it came from.
type lockForm struct {
	Name       string `rule:"required,ident"` // for faults and SLOs
	Profile    string // a shipped policy; beside policy only a label
	Key        string // of a leader loop; default: the profile's, or the lock's name
	KeyPrefix  string // before a job's id; default: the profile's, or the lock's name and a colon
	KeySuffix  string // behind a job's id
	KeyPattern string `rule:"not=key_prefix,not=key_suffix"` // prefix and suffix in one: bull:mail:*:lock
	Lease      string // name of the Lease object, in place of a key
	overrides
	Fenced      *bool            `rule:"for=@embedded"` // the ledger compares fences; default: the profile's, else yes
	Policy      *lockcore.Policy // a complete policy, in place of a profile's
	AbandonedBy *Signal          `rule:"for=@observed"` // what counts how often the lock was given up
	ToldBy      *Told            `rule:"for=@observed"` // what counts refusals, waiting, and answers to calls
	Belief      *Belief          `rule:"for=@observed"` // what tells whether a replica believes that it holds the lock
}

// overrides change single values of a profile's policy, or are all that a lock says of its own.
type overrides struct {
	TTL         *time.Duration  `rule:"positive"` // in place of the profile's
	RenewEvery  *time.Duration  // in place of the profile's
	RenewJitter *float64        `rule:"max=1"`                                                       // in place of the profile's
	Class       *lockcore.Class `rule:"words=standard|legacy_count|critical|continuity|legacy_warn"` // in place of the profile's
	MaxFailures *int            `rule:"min=1"`                                                       // in place of the profile's
	OpTimeout   *time.Duration  `rule:"positive"`                                                    // in place of the profile's
	Drift       *time.Duration  // in place of the profile's
	StopBudget  *time.Duration  // in place of the profile's
	Poll        *time.Duration  `rule:"positive"` // in place of the profile's
	Tick        *time.Duration  // in place of the profile's
}

func (l *Lock) Spelling() any {
	f := &lockForm{Name: l.Name, Profile: l.Profile, Key: l.Key, KeyPrefix: l.KeyPrefix, KeySuffix: l.KeySuffix, Lease: l.Lease, AbandonedBy: l.AbandonedBy, ToldBy: l.ToldBy, Belief: l.Belief}
	if l.Unfenced {
		f.Fenced = new(bool)
	}
	if l.Policy != (lockcore.Policy{}) {
		f.Policy = &l.Policy
	}
	return f
}

func (l *Lock) SetSpelling(f *vocab.File, path string, spelling any) {
	in := spelling.(*lockForm)
	if in.KeyPattern != "" {
		if in.KeyPrefix+in.KeySuffix != "" {
			f.Add(path+".key_pattern", f.Place(path+".key_pattern"), "is key_prefix and key_suffix in one: leave them out")
			return
		}
		if strings.Count(in.KeyPattern, "*") != 1 {
			f.Add(path+".key_pattern", f.Place(path+".key_pattern"), "%q has not just one star: it stands for the job, as in bull:mail:*:lock", in.KeyPattern)
			return
		}
		in.KeyPrefix, in.KeySuffix, _ = strings.Cut(in.KeyPattern, "*")
	}
	*l = Lock{Name: in.Name, Profile: in.Profile, Key: in.Key, KeyPrefix: in.KeyPrefix, KeySuffix: in.KeySuffix, Lease: in.Lease, AbandonedBy: in.AbandonedBy, ToldBy: in.ToldBy, Belief: in.Belief, Place: placeOf(f, path)}
	switch {
	case f.Invalid(path):
		return
	case in.Policy != nil:
		whole := assumed{Policy: in.Policy}
		whole.fill()
		l.Policy, l.Assumed = *in.Policy, whole.said
		refuseOverrides(f, path)
		label(f, path+".profile", in.Profile)
	case in.Profile == "" && in.TTL == nil:
		f.Add(path, f.Place(path), "a lock needs a ttl, a profile or a policy: {name: leader, ttl: 12s, poll: 2s} is a leader loop, without poll it is taken per job")
		return
	case in.Profile == "":
		short := shortPolicy(&in.overrides)
		l.Policy, l.Assumed = *short.Policy, short.said
	case !l.expand(f, path, in):
		return
	}
	if in.Fenced != nil {
		l.Unfenced = !*in.Fenced
	}
	if l.Lease != "" {
		l.nameLease(f, path, in)
		return
	}
	l.nameKeys(f, path)
}

// nameLease takes the object's name for the lock's key.
func (l *Lock) nameLease(f *vocab.File, path string, in *lockForm) {
	for name, given := range map[string]string{"key": in.Key, "key_prefix": in.KeyPrefix, "key_suffix": in.KeySuffix, "key_pattern": in.KeyPattern} {
		if given != "" && given != l.Lease {
			f.Add(path+"."+name, f.Place(path+"."+name), "the lock is Lease %s: it has no key of its own", l.Lease)
		}
	}
	l.Key, l.KeyPrefix, l.KeySuffix = l.Lease, "", ""
}

// expand takes policy and keys from the profile, as far as the file does not give its own.
func (l *Lock) expand(f *vocab.File, path string, in *lockForm) bool {
	base, err := Profile(in.Profile)
	if err != nil {
		f.Add(path+".profile", f.Place(path+".profile"), "%s", err)
		return false
	}
	l.Policy, l.Unfenced, l.Beyond = base.Policy, base.Unfenced, base.Beyond
	if l.Key == "" {
		l.Key = base.Key
	}
	if l.KeyPrefix == "" {
		l.KeyPrefix = base.KeyPrefix
	}
	if o := &in.overrides; l.Policy.Loop == nil && (o.Poll != nil || o.Tick != nil) {
		f.Add(path, f.Place(path), "poll and tick are of leader loops; %s is taken per job", in.Profile)
		return false
	}
	in.overrides.apply(&l.Policy)
	return true
}

// apply puts what is given into a policy, and into its loop, where it has one.
func (o *overrides) apply(p *lockcore.Policy) {
	from := reflect.ValueOf(o).Elem()
	for i := range from.NumField() {
		to := reflect.ValueOf(p).Elem().FieldByName(from.Type().Field(i).Name)
		if !to.IsValid() && p.Loop != nil {
			to = reflect.ValueOf(p.Loop).Elem().FieldByName(from.Type().Field(i).Name)
		}
		if to.IsValid() && !from.Field(i).IsNil() {
			to.Set(from.Field(i).Elem())
		}
	}
}

func refuseOverrides(f *vocab.File, path string) {
	for _, d := range vocabulary.Fields(reflect.TypeFor[overrides]()) {
		if at := vocab.Join(path, d.Name); f.Node(at) != nil {
			f.Add(at, f.Node(at), "changes a profile's policy: with a policy section, write it there")
		}
	}
}

// label refuses a profile beside a policy that is no name of one, such as a path: no file is read for it.
func label(f *vocab.File, path, name string) {
	family, rest, parted := strings.Cut(name, "/")
	if name != "" && (!vocab.Identifier().MatchString(family) || parted && !vocab.Identifier().MatchString(rest)) {
		f.Add(path, f.Place(path), "%q is no name of a profile: beside a policy it is only a label, such as acme/scheduler", name)
	}
}

// nameKeys gives a lock without a key of its own one that is made of its name.
func (l *Lock) nameKeys(f *vocab.File, path string) {
	switch {
	case l.Loop() && l.KeyPrefix+l.KeySuffix != "":
		for _, name := range []string{"key_pattern", "key_suffix", "key_prefix"} {
			if n := f.Node(path + "." + name); n != nil {
				f.Add(path+"."+name, n, "a leader loop has one key: give key, not %s", name)
				return
			}
		}
	case !l.Loop() && l.Key != "":
		f.Add(path+".key", f.Place(path+".key"), "the lock is taken per job: give key_prefix, not key; a leader loop has a poll")
	case l.Loop() && l.Key == "":
		l.Key = l.Name
	case !l.Loop() && l.KeyPrefix+l.KeySuffix == "":
		l.KeyPrefix = fmt.Sprintf("%s:", l.Name)
	}
}

// cadence is the spelling of Repeat's `every`: the word settled, or a duration.
type cadence struct {
	settled bool
	every   time.Duration
}

func (c *cadence) ParseNode(n *yaml.Node) string {
	if n.Value == "settled" {
		c.settled = true
		return ""
	}
	d, problem := vocab.ParseDuration(n)
	if problem != "" {
		return problem + " (or the word settled)"
	}
	if d == 0 {
		return "must be above 0 (or the word settled)"
	}
	*c = cadence{every: d}
	return ""
}

func (c *cadence) Format() string {
	if c.settled {
		return "settled"
	}
	return figures.Spell(c.every)
}

// amount is a limit that is a count or a duration.
type amount struct {
	isCount bool
	count   int
	time    time.Duration
}

func (a *amount) ParseNode(n *yaml.Node) string {
	if n.Tag == "!!int" {
		a.isCount = true
		return vocab.ParseValue(n, &a.count)
	}
	var problem string
	a.time, problem = vocab.ParseDuration(n)
	return problem
}

func (a *amount) Format() string {
	if a.isCount {
		return strconv.Itoa(a.count)
	}
	return figures.Spell(a.time)
}

func (*cadence) Schema() *vocab.JSONSchema {
	return &vocab.JSONSchema{AnyOf: []*vocab.JSONSchema{{Enum: []string{"settled"}}, vocab.ScalarSchema(reflect.TypeFor[time.Duration](), vocab.Rule{Positive: true})}}
}

func (*amount) Schema() *vocab.JSONSchema {
	return &vocab.JSONSchema{AnyOf: []*vocab.JSONSchema{vocab.ScalarSchema(reflect.TypeFor[int](), vocab.Rule{}), vocab.ScalarSchema(reflect.TypeFor[time.Duration](), vocab.Rule{})}}
}
