package experiments

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// TestMarshalRoundTrip: a resolved file gives the same experiment back, whatever the experiment.
func TestMarshalRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range 500 {
		g := generator{rand.New(rand.NewPCG(seed, uint64(i)))}
		e := g.experiment()
		data, err := Marshal(e)
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		back, err := Parse("resolved.yaml", data)
		if err != nil {
			t.Fatalf("case %d does not parse:\n%v\n%s", i, err, data)
		}
		for j := range back.SLOs {
			back.SLOs[j].Place = Place{}
		}
		for j := range back.Expect {
			back.Expect[j].Place = Place{}
		}
		for j := range back.System.Locks {
			back.System.Locks[j].Place = Place{}
		}
		if !reflect.DeepEqual(e, back) {
			t.Fatalf("case %d comes back different:\n%s\nwrote %+v\nread  %+v", i, data, e, back)
		}
		if again, err := Marshal(back); err != nil || string(again) != string(data) {
			t.Fatalf("case %d is not written the same again (%v):\n%s\n%s", i, err, data, again)
		}
	}
}

func TestMarshalStandsAlone(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	// A profile that has been renamed since must not matter.
	text := strings.ReplaceAll(string(data), "cordum/scheduler-job", "cordum/gone")
	back, err := Parse("resolved.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if back.System.Locks[0].Policy != e.System.Locks[0].Policy || back.System.Locks[0].KeyPrefix != "cordum:scheduler:job:" {
		t.Errorf("the lock is %+v", back.System.Locks[0])
	}
}

func TestMarshalRefusesScaled(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.TimeScale = 0.5
	if _, err := Marshal(Scale(e)); err == nil {
		t.Error("a scaled experiment was marshalled")
	}
}

func TestSecretsStayOut(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.Redis = Redis{Mode: RedisExternal, URL: "rediss://10.0.0.5:6379/0"}
	e.System.Worker = []string{"./worker", "--password=hunter2", "redis://:hunter2@h:1"}
	data, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter2") || !strings.Contains(string(data), "10.0.0.5:6379") {
		t.Errorf("marshalled:\n%s", data)
	}
	if _, err := Parse("redacted.yaml", data); err != nil {
		t.Errorf("a redacted file is not valid any more: %v", err)
	}
}

// generator makes valid experiments from every part of the vocabulary.
type generator struct{ *rand.Rand }

func (g generator) experiment() *Experiment {
	e := &Experiment{
		Name:        g.name("exp"),
		Description: g.text(),
		Environment: g.name("env"),
		Redis:       Redis{Mode: pick(g, RedisAuto, RedisSpawn)},
		Proxy:       Proxy{Mode: ProxyEmbedded},
		TimeScale:   1 - 0.9*g.Float64(),
		SteadyState: SteadyState{For: g.duration() - 1, Timeout: time.Hour * 300},
		Probes:      Probes{LockKeys: g.probe(), Ledger: g.probe()},
		Limits:      RunLimits{MaxRun: 30 * 24 * time.Hour},
		Seed:        g.Int64N(1 << 40),
	}
	if g.IntN(5) == 0 {
		e.Redis = Redis{Mode: RedisExternal, URL: "rediss://127.0.0.1:6379/2", UsernameEnv: "U", PasswordEnv: "P_2", CA: g.text() + "x", Allow: []string{"pause", "flush", "fill", "delete_key"}}
	}
	if g.IntN(5) == 0 {
		e.Proxy = Proxy{Mode: ProxyExternal, URL: "http://127.0.0.1:8474"}
	}
	if g.IntN(3) == 0 {
		e.Windows = []Window{{Days: []string{"mon", "sun"}, From: "09:00", To: "00:30", Zone: "Europe/Berlin"}, {Days: []string{"sat"}, Zone: "UTC"}}
		e.Blackouts = []Window{{From: "23:59", To: "00:00", Zone: "America/New_York"}}
	}
	e.System = System{Mode: "embedded", Replicas: 1 + g.IntN(9), Restart: pick(g, 0, shortest+g.duration())}
	if g.IntN(2) == 0 {
		e.System.Worker = []string{"./" + g.name("worker"), g.text() + "x"}
	}
	for i := range 1 + g.IntN(4) {
		g.lock(e, i)
	}
	for i := range 1 + g.IntN(4) {
		e.Faults = append(e.Faults, g.fault(e, i))
	}
	e.Faults = append(e.Faults, g.network(e)...)
	if h, is := e.Faults[0].Spec.(*fault.Hook); is && h.Aim == (fault.Aim{}) { // it may be alone, and then strikes somebody
		h.Aim = fault.Aim{Replica: "r1"}
	}
	for i := range e.Faults {
		for j := range i {
			e.AllowOverlap = append(e.AllowOverlap, [2]string{e.Faults[i].ID, e.Faults[j].ID})
		}
	}
	if g.IntN(3) == 0 {
		e.AbortWhen = []AbortCondition{{DuplicateTerminalStatesAbove: ptr(g.IntN(9))}, {AbandonmentsAbove: ptr(g.IntN(9))}}
	}
	for i := range g.IntN(3) {
		e.Probes.Metrics = append(e.Probes.Metrics, g.metric(i))
	}
	for range 1 + g.IntN(6) {
		slo := g.slo(e)
		if !slices.ContainsFunc(e.SLOs, func(o SLO) bool { return o.subject() == slo.subject() }) {
			e.SLOs = append(e.SLOs, slo)
		}
	}
	pods := g.IntN(5) == 0
	if !pods && g.IntN(2) == 0 {
		e.Expect = []SLO{{Fault: e.Faults[0].ID, Lock: e.System.Locks[0].Name, Abandonments: &CountLimit{Bound: g.bound()}}}
	}
	if pods { // or processes, of somebody's own
		g.onThisHost(e)
	}
	e.Limits.MaxKills, e.Limits.MaxTargets = max(1, 3*e.declaredKills(false)), pick(g, 0, e.System.Replicas)
	e.Limits.KillSwitch = pick(g, "", "/tmp/stop it")
	return e
}

func (g generator) lock(e *Experiment, i int) {
	ttl := 100*time.Millisecond + g.duration()
	l := Lock{Name: g.name(fmt.Sprint("l", i)), Policy: lockcore.Policy{
		TTL: ttl, RenewEvery: ttl / time.Duration(2+g.IntN(5)), RenewJitter: g.Float64() / 2, OpTimeout: g.pace(),
		Class: lockcore.Standard, Drift: ttl / 100, StopBudget: ttl / 50,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone, AfterAbandon: pick(g, lockcore.AfterAbandonSkip, lockcore.AfterAbandonStopped)},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: g.pace()},
	}}
	p := &l.Policy
	if g.IntN(2) == 0 {
		l.Profile = "some/profile"
		p.Class, p.MaxFailures = lockcore.LegacyCount, 1+g.IntN(4)
	}
	if g.IntN(2) == 0 {
		l.Key = "key:" + l.Name
		p.Loop = &lockcore.Loop{Poll: g.pace(), Jitter: g.Float64(), Mode: lockcore.LoopRenewed, Tick: g.duration() - 1}
		e.System.Locks = append(e.System.Locks, l)
		return
	}
	l.KeyPrefix = l.Name + ":"
	if g.IntN(2) == 0 {
		p.Release = lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 1 + g.IntN(4), Timeout: g.pace(), AfterAbandon: lockcore.AfterAbandonSkip}
	}
	if g.IntN(2) == 0 {
		p.Acquire.Mode, p.Acquire.Budget = lockcore.AcquireWait, g.duration()
		p.Acquire.Backoff = lockcore.Backoff{Mode: []lockcore.BackoffMode{lockcore.BackoffDecorrelated, lockcore.BackoffWake}[g.IntN(2)], Every: 10 * shortest, Cap: 10*shortest + g.duration()}
	}
	w := Work{
		Lock: l.Name, Jobs: 1 + g.IntN(1000), Rate: 1e-6 + 1000*g.Float64(), Redeliver: g.duration() - 1,
		Fenced: g.IntN(2) == 0, Strict: g.IntN(2) == 0, Look: g.IntN(2) == 0,
	}
	w.Hold.P50 = p.TTL + g.duration()
	w.Hold.P99 = w.Hold.P50 + g.duration()
	if g.IntN(2) == 0 {
		w.Classes = []JobClass{{Name: "small", Share: 0.75}, {Name: "big-1", Share: 0.25, Hold: &Hold{P50: w.Hold.P50, P99: w.Hold.P99}}}
	}
	e.System.Locks, e.System.Work = append(e.System.Locks, l), append(e.System.Work, w)
}

func (g generator) fault(e *Experiment, i int) Fault {
	lock := e.System.Locks[g.IntN(len(e.System.Locks))].Name
	f := Fault{ID: g.name(fmt.Sprint("f", i)), At: g.duration() - 1, Repeat: Repeat{Count: 1 + g.IntN(5), Settled: true}}
	if g.IntN(2) == 0 {
		f.Repeat.Settled, f.Repeat.Every = false, 30*24*time.Hour
	}
	if g.IntN(2) == 0 {
		kill := &fault.Kill{HolderOf: lock, How: "crash", Phase: pick(g, fault.AfterGrant, fault.AfterRenew, fault.BeforeRenew, fault.RandomPhase, "")}
		if kill.Phase == "" {
			kill.On = fault.Acquired
		}
		f.Spec = kill
		if loop := e.System.Locks[slices.IndexFunc(e.System.Locks, func(l Lock) bool { return l.Name == lock })].Policy.Loop; loop != nil && loop.Mode == lockcore.LoopRenewed {
			kill.Phase, kill.On = fault.RandomPhase, "" // a renewed loop is not granted again
		}
		return f
	}
	g.kind(e, lock, &f)
	return f
}

// kind makes f any fault but a kill or one of the network.
func (g generator) kind(e *Experiment, lock string, f *Fault) {
	aim := fault.Aim{HolderOf: lock}
	if g.IntN(2) == 0 {
		aim = pick(g, fault.Aim{All: true}, fault.Aim{Replica: fmt.Sprintf("r%d", 1+g.IntN(e.System.Replicas))})
	}
	f.For = 1 + g.duration()
	switch g.IntN(8) {
	case 7:
		f.Spec = &fault.Hook{Aim: pick(g, fault.Aim{}, fault.Aim{HolderOf: lock}, fault.Aim{Replica: "r1"}), Commands: fault.Commands{
			Do: []string{"./cut.sh", "on"}, Undo: pick(g, nil, []string{"./cut.sh", ""}), Confirm: []string{"true"}, Within: 1 + g.duration()%time.Minute, Dir: pick(g, "", "/opt/drills"),
		}}
	case 0:
		f.Spec = &fault.Pause{Aim: pick(g, fault.Aim{HolderOf: lock}, fault.Aim{Replica: "r1"})}
	case 1:
		f.Spec = &fault.Clock{Aim: aim, Offset: pick[time.Duration](g, 1, -1) * g.duration()}
	case 2:
		store := &fault.Store{Do: fault.StorePause}
		if e.Redis.Mode != RedisExternal {
			store.Do = pick(g, fault.StorePause, fault.StoreFreeze, fault.StoreStop)
			store.Keep = store.Do == fault.StoreStop && g.IntN(2) == 0
		}
		f.Spec = store
	case 3:
		store := &fault.Store{Do: fault.StoreFlush}
		f.For, f.Spec = 0, store
		if e.Redis.Mode != RedisExternal {
			*store = pick(g, fault.Store{Do: fault.StoreFlush}, fault.Store{Do: fault.StoreRestart, Keep: true}, fault.Store{Do: fault.StoreFailover, Lag: g.duration()})
		}
	case 4:
		f.Spec = &fault.DeleteKey{HolderOf: lock, To: pick(g, "", "stranger")}
		if f.Traits().Instant != "" {
			f.For = 0
		}
	default:
		b := &fault.Failures{Aim: aim, Mode: pick(g, fault.ModeError, fault.ModeTimeout, fault.ModeLostReply), Count: 1 + g.IntN(5), Share: g.Float64() / 2, Via: pick(g, fault.ViaWorker, fault.ViaProxy)}
		if g.IntN(2) == 0 {
			f.For = 0
		} else {
			b.Count *= g.IntN(2)
		}
		if g.IntN(3) == 0 {
			b.Mode, b.Delay = fault.ModeDelay, 1
		}
		if aim.HolderOf == "" && g.IntN(2) == 0 {
			b.Lock = lock
		}
		b.Of, f.Spec = lockcore.OpAcquire, b
		if l := e.System.Locks[slices.IndexFunc(e.System.Locks, func(l Lock) bool { return l.Name == lock })]; g.IntN(2) == 0 && (l.Policy.Release.Mode != lockcore.ReleaseNone) {
			b.Of = lockcore.OpRelease
		} else if g.IntN(2) == 0 {
			b.Of = lockcore.OpRenew
		}
	}
}

// network makes faults of the network, one after another: on one way no two may be in effect together.
func (g generator) network(e *Experiment) []Fault {
	aim := pick(g, fault.Aim{All: true}, fault.Aim{Replica: "r1"}, fault.Aim{HolderOf: e.System.Locks[0].Name})
	stream := pick(g, fault.StreamUp, fault.StreamDown, fault.StreamBoth)
	delay := func() time.Duration { return 20*time.Millisecond + g.duration() } // a whole millisecond at every time_scale
	kinds := []Fault{
		{Spec: &fault.Latency{Aim: aim, Add: delay(), Stream: stream}}, {Spec: &fault.Latency{Aim: aim, Jitter: delay(), Stream: stream}},
		{Spec: &fault.Jitter{Aim: aim, By: delay(), Stream: stream}}, {Spec: &fault.Bandwidth{Aim: aim, Rate: 1 + g.IntN(2e5), Stream: stream}},
		{Spec: &fault.Cut{Aim: aim, How: fault.Hole}}, {Spec: &fault.Cut{Aim: aim, How: fault.Reset}}, {Spec: &fault.Cut{Aim: aim, How: fault.Down}}, {Spec: &fault.SlowClose{Aim: aim, Delay: delay(), Stream: stream}},
		{Spec: &fault.Slices{Aim: aim, Size: 1 + g.IntN(1e4), Delay: delay(), Stream: stream}}, {Spec: &fault.LimitData{Aim: aim, Bytes: 1000 + g.IntN(999001), Stream: stream}},
	}
	g.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:g.IntN(4)]
	for i := range kinds {
		f := &kinds[i]
		f.ID, f.At, f.For, f.Repeat = g.name(fmt.Sprint("n", i)), time.Duration(i)*2*time.Hour, g.duration(), Repeat{Count: 1, Settled: true}
	}
	return kinds
}

func (g generator) slo(e *Experiment) SLO {
	l := &e.System.Locks[g.IntN(len(e.System.Locks))]
	s := SLO{Lock: l.Name}
	p95 := g.duration() - 1
	limits := Within(p95 + g.duration())
	if g.IntN(3) == 0 {
		limits.Min = ptr(time.Duration(1))
	} else {
		limits.P95 = &p95
	}
	switch g.IntN(20) {
	case 0:
		s.Abandonments = &CountLimit{Bound: g.bound()}
	case 1:
		s.Abandonment = &AbandonmentLimits{Missed: AtMost(0), Needless: ptr(g.bound())}
	case 2:
		s.Overlap = &OverlapLimit{Level: "effect", Count: g.bound()}
	case 3:
		s.Overlap = &OverlapLimit{Level: pick(g, "belief", "work"), Time: *AtMost(g.duration() - 1)}
	case 4:
		s.FenceLag = &Bound[time.Duration]{Max: ptr(g.duration() - 1), Min: ptr(-g.duration())}
	case 5:
		s.UnownedWork = AtMost(time.Duration(0))
	case 6:
		s.Busy = &BusyLimit{Time: AtMost(g.duration()), Each: AtLeast(g.duration())}
	case 7:
		s.FenceRegressions = &CountLimit{Bound: g.bound()}
	case 9:
		s.LossToFence = AtMost(g.duration())
	case 15:
		s.ForeignReleases = &CountLimit{Bound: g.bound()}
	case 16:
		s.ForeignRenewals = &CountLimit{Bound: g.bound()}
	case 17:
		s.DuplicateEpochs = &CountLimit{Bound: g.bound()}
		if g.IntN(2) == 0 {
			s.DuplicateEpochs, s.Vanished = nil, s.DuplicateEpochs
		}
	case 18:
		s.Blocked = AtMost(g.duration())
	case 14:
		s.FenceRegressions = &CountLimit{Bound: g.bound()}
		if ms := e.Probes.Metrics; len(ms) > 0 {
			s.FenceRegressions, s.Metric = nil, g.metricLimit(ms[g.IntN(len(ms))].Name)
		}
	case 10:
		s.LockDebt = &DebtLimits{Effective: AtMost(g.duration()), Waiting: AtMost(g.duration() - 1)}
	case 11:
		s.NotOwned = &NotOwnedLimits{Renew: AtMost(g.Float64())}
	case 12:
		s.OrphanAcquires = &CountLimit{Bound: g.bound()}
	case 13:
		s.Held = &ClassLimits{DurationLimits: *limits}
	case 8:
		if l.Loop() {
			s.TickGap = limits
		} else {
			s.DuplicateTerminalStates = &CountLimit{Bound: g.bound(), MinJobs: g.IntN(2)}
		}
	default:
		s.Takeover = limits
	}
	return s
}

// bound is what a count must be.
func (g generator) bound() Bound[int] {
	return pick(g, *AtMost(g.IntN(3)), *AtLeast(1 + g.IntN(3)), Bound[int]{Exactly: ptr(g.IntN(3))}, Bound[int]{Max: ptr(7), Min: ptr(1 + g.IntN(3))})
}

func (g generator) metric(i int) Metric {
	m := Metric{Name: g.name(fmt.Sprint("m", i)), Scrape: pick(g, ScrapeReplicas, "http://127.0.0.1:9121/metrics"), Series: "x_total", Every: 100*time.Millisecond + g.duration()}
	if g.IntN(2) == 0 {
		m.Labels = map[string]string{"reason": g.text() + "x", "le": "0.5"}
	}
	return m
}

func (g generator) metricLimit(name string) *MetricLimit {
	m := &MetricLimit{Name: name, AbsentMeans: pick(g, "", "zero")}
	*pick(g, &m.Delta, &m.Rate, &m.Max) = AtMost(g.Float64())
	return m
}

func (g generator) probe() ProbeSettings {
	every := g.duration()
	return ProbeSettings{Every: shortest + every, MaxGap: shortest + every + g.duration()}
}

// pace is a duration that is long enough at every time_scale of a generated experiment.
func (g generator) pace() time.Duration { return 10*shortest + g.duration() }

// duration is at least 1 ns, of any magnitude.
func (g generator) duration() time.Duration {
	return 1 + time.Duration(g.Int64N(int64(time.Hour)>>g.IntN(40)))
}

func (g generator) name(prefix string) string { return fmt.Sprintf("%s-%x", prefix, g.Uint32()) }

// text is something that YAML would read as something else, or in pieces, if it were not quoted.
func (g generator) text() string {
	return pick(g, "", "plain words", "12", "true", "~", "null", "a: b # c", "  spaces  ", "line\nbreak\n", "\ttab", "\"quoted\" 'twice'", "{flow}", "- list", "é\u2028ü", "0x1f", "1e3", "<<", "|", "@at")
}

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

func ptr[T any](v T) *T { return &v }
