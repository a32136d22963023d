package draft

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Every combination of what can be known gives a file that the reader takes, and that says what is known.
func TestEveryCombinationIsValid(t *testing.T) {
	replicas := map[string]Draft{
		"nothing":   {},
		"match":     {Processes: experiments.Processes{Match: `scheduler\.py --name (?P<name>\S+)`, Log: "/var/log/{name}.log", Metrics: "http://127.0.0.1:{pid}/metrics"}, Replicas: 2},
		"pid files": {Processes: experiments.Processes{PIDFiles: "/run/sched/{name}.pid"}},
		"unit":      {Processes: experiments.Processes{Unit: "scheduler@{name}.service"}},
		"cgroup":    {Processes: experiments.Processes{Cgroup: "sched/{name}"}},
		"command":   {Processes: experiments.Processes{Command: []string{"./replicas.sh", "it's"}}},
		"pods":      {Namespace: "shop", Selector: map[string]string{"app": "it", "tier": "1"}},
		"namespace": {Namespace: "shop"},
		"monitor":   {Processes: experiments.Processes{Match: "sched"}, Monitor: true},
		"in pods":   {Namespace: "shop", Monitor: true},
	}
	redis := experiments.Redis{URL: "rediss://redis.staging:6379/2", UsernameEnv: "U", PasswordEnv: "P", CA: "ca.pem", Cert: "c.pem", Key: "k.pem"}
	locks := map[string][]Lock{
		"nothing known": {{Key: "sched:leader"}},
		"renewed":       {{Name: "leader", Key: "sched:leader", TTL: 60 * time.Second, RenewEvery: 20100 * time.Millisecond, Poll: 30 * time.Second, Mode: lockcore.LoopRenewed, Seen: "Seen: renewed"}},
		"ttl hold":      {{Key: "sched:reconciler", TTL: 60 * time.Second, Poll: 30 * time.Second, Mode: lockcore.LoopTTLHold}},
		"explicit":      {{Key: "sched:{x}"[:6] + "replayer", TTL: 2 * time.Second, Poll: time.Second, Mode: lockcore.LoopExplicit}},
		"short":         {{Key: "s", TTL: 20 * time.Millisecond, RenewEvery: 5 * time.Millisecond}},
		"profile":       {{Name: "x", Key: "k", Profile: "cordum/scheduler-reconciler"}},
		"jobs too":      {{KeyPrefix: "sched:job:", TTL: 30 * time.Second, RenewEvery: 10 * time.Second}, {Key: "sched:leader", TTL: time.Minute}},
		"same names":    {{Key: "a b:c"[:1] + ":c"}, {Key: "a/c"}, {Key: "a-c"}},
		"job":           {{Name: "job", KeyPrefix: "sched:job:", TTL: 30 * time.Second}},
		"untold jobs":   {{KeyPrefix: "sched:job:", TTL: 2 * time.Second, RenewEvery: 600 * time.Millisecond}, {KeyPrefix: "other:"}},
	}
	effects := map[string][]experiments.Effects{
		"none":   nil,
		"stream": {{Name: "jobs", Lock: "job", Stream: "jobs:log", Map: experiments.EffectMap{Job: "job_id", State: "status", Terminal: []string{"DONE", "FAILED"}}}},
	}
	for r, base := range replicas {
		for l, list := range locks {
			for x, told := range effects {
				if (x == "stream") != (l == "job") {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s", r, l, x), func(t *testing.T) {
					d := base
					d.Locks, d.Effects, d.Redis, d.From = list, told, redis, "From a test."
					if l == "renewed" && d.Namespace != "" { // a Lease object, and no Redis
						d.Locks = []Lock{{Lease: "leader", TTL: 15 * time.Second, RenewEvery: 2 * time.Second, Mode: lockcore.LoopRenewed}}
						d.Redis = experiments.Redis{}
					}
					data, err := d.Text()
					if err != nil {
						t.Fatal(err)
					}
					e, err := experiments.Parse("draft.yaml", said(data))
					if err != nil {
						t.Fatalf("%v\n%s", err, data)
					}
					if _, err := experiments.Parse("draft.yaml", data); (experiments.UnsaidIn(data) > 0) != (err != nil) || err != nil && !strings.Contains(err.Error(), "still to be said") {
						t.Errorf("with what nobody said: %v\n%s", err, data)
					}
					if !strings.HasPrefix(string(data), experiments.Modeline) || e.Redis.URL != d.Redis.URL || e.Redis.Key != d.Redis.Key || e.Faults[0].Lock() != e.System.Locks[0].Name {
						t.Errorf("the draft is\n%s", data)
					}
					for line := range strings.Lines(string(data)) {
						if strings.Contains(line, " release: ") && !strings.Contains(line, check) && l != "ttl hold" {
							t.Errorf("how the lock is released is assumed, and not marked:\n%s", data)
						}
					}
					if w := list[len(list)-1]; w.TTL > 0 && w.KeyPrefix == "" && d.Redis.URL != "" && e.System.Locks[len(e.System.Locks)-1].Policy.TTL != w.TTL {
						t.Errorf("the ttl %s is lost:\n%s", w.TTL, data)
					}
				})
			}
		}
	}
}

// Of a lock that was only looked at, nobody knows that it is never renewed.
func TestALockWithoutRenewals(t *testing.T) {
	for seen, says := range map[string]string{"": "its holder never renews it", "Seen: held for 400ms": check + ": no renewal was seen"} {
		data, err := Draft{Redis: experiments.Redis{URL: "redis://h:1"}, Locks: []Lock{{Key: "leader", TTL: time.Minute, Seen: seen}}}.Text()
		if err != nil || !strings.Contains(string(data), "renew_every: 0s # "+says+"\n") {
			t.Errorf("%v\n%s", err, data)
		}
	}
}

func TestNothingToDrillIsSaid(t *testing.T) {
	if _, err := (Draft{}).Text(); !errors.Is(err, ErrNothing) {
		t.Errorf("an empty draft gives %v", err)
	}
}

// Where every lock is taken per job, the first is drilled: what tells of its jobs is assumed and marked, and nothing is promised of it.
func TestJobsThatNobodyTellsOfAreAssumed(t *testing.T) {
	data, err := Draft{Redis: experiments.Redis{URL: "redis://h:1"}, Locks: []Lock{{KeyPrefix: "sched:job:", TTL: 2 * time.Second}, {KeyPrefix: "other:"}}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiments.Parse("draft.yaml", said(data))
	if err != nil || len(e.System.Locks) != 1 || e.System.Locks[0].KeyPrefix != "sched:job:" || len(e.SLOs) != 1 || e.SLOs[0].Takeover == nil {
		t.Errorf("%v\n%s", err, data)
	}
	if most := *e.SLOs[0].Takeover.Max; most < 2*2*time.Second || !strings.Contains(string(data), check+": from the kill") {
		t.Errorf("a takeover within %s leaves no time until a job is tried again, or nobody is told:\n%s", most, data)
	}
	for _, line := range []string{"stream:", "map:"} {
		_, rest, _ := strings.Cut(string(data), "      "+line)
		if rest, _, _ = strings.Cut(rest, "\n"); !strings.Contains(rest, check+": ") {
			t.Errorf("%s is not marked:\n%s", line, data)
		}
	}
}

// The looks at keys may be late as on a busy machine; Lease objects have a tolerance of their own.
func TestLooksMayBeLate(t *testing.T) {
	for _, c := range []struct {
		d    Draft
		want time.Duration
	}{
		{Draft{Redis: experiments.Redis{URL: "redis://h:1"}, Locks: []Lock{{Key: "leader"}}}, 500 * time.Millisecond},
		{Draft{Namespace: "shop", Locks: []Lock{{Lease: "leader"}}}, 50 * time.Millisecond},
	} {
		data, err := c.d.Text()
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiments.Parse("draft.yaml", said(data))
		if err != nil || e.Probes.LockKeys.MaxGap != c.want || strings.Contains(string(data), "probes:") != (c.want > 50*time.Millisecond) {
			t.Errorf("want max_gap %s: %v\n%s", c.want, err, data)
		}
	}
}

// A lock of jobs that nobody tells of stands in the file as a comment, which becomes an entry when its mark is taken away.
func TestALockOfJobsIsThereToBeUncommented(t *testing.T) {
	data, err := Draft{Redis: experiments.Redis{URL: "redis://h:1"}, Locks: []Lock{{Name: "job", KeyPrefix: "job:"}, {Name: "leader", Key: "leader"}}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	before, commented, ok := strings.Cut(string(data), "    # - name: job\n")
	if !ok {
		t.Fatalf("no comment of lock job:\n%s", data)
	}
	text := before + strings.ReplaceAll("    # - name: job\n"+commented, "    # ", "    ")
	text = strings.Replace(text, "faults:\n", "  effects: [{name: jobs, lock: job, stream: s, map: {job: id, state: state, terminal: [done]}}]\nfaults:\n", 1)
	e, err := experiments.Parse("uncommented.yaml", said([]byte(text)))
	if err != nil || e.Lock("job") == nil || e.Lock("job").KeyPrefix != "job:" {
		t.Errorf("%v\n%s", err, text)
	}
}

// What was granted and handed on comes before what only looks like a lock, even where nobody has said yet how its jobs are told of.
func TestWhatBehavesLikeALockIsStruck(t *testing.T) {
	beat := Lock{Key: "a-heartbeat", TTL: time.Second, RenewEvery: 300 * time.Millisecond}
	job, loop := Lock{KeyPrefix: "job:", TTL: time.Minute, Evidence: HandedOn}, Lock{Key: "z-leader", TTL: time.Minute, Evidence: HandedOn}
	granted := Lock{Key: "b-granted", TTL: time.Minute, Evidence: Granted}
	for _, c := range []struct {
		locks []Lock
		want  string
	}{
		{[]Lock{beat, job}, "job a-heartbeat"},
		{[]Lock{beat, granted, job, loop}, "z-leader b-granted a-heartbeat"}, // of equals, that which can be drilled as it is
	} {
		d := Draft{Redis: experiments.Redis{URL: "redis://h:1"}, Processes: experiments.Processes{Match: "sched"}, Locks: c.locks}
		data, err := d.Text()
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiments.Parse("draft.yaml", said(data))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range e.System.Locks {
			names = append(names, e.System.Locks[i].Name)
		}
		if got := strings.Join(names, " "); got != c.want || e.Faults[0].Spec.(*fault.Kill).HolderOf != names[0] {
			t.Errorf("%s, want %s\n%s", got, c.want, data)
		}
	}
}

// Whose values are random words is found by its log, or by the connection where MONITOR is allowed; other values are taken for names.
func TestTheHolderIsFoundAsWatchSaw(t *testing.T) {
	for _, c := range []struct {
		values  Values
		monitor bool
		pods    bool
		want    []string
		wantNot string
	}{
		{Tokens, false, false, []string{"- log:\n        pattern:", "    log: "}, "- value:"},
		{Tokens, true, false, []string{"- client: {}"}, "- value:"},
		{Tokens, false, true, []string{"- log:\n        pattern:"}, "- value:"},
		{Names, false, false, []string{"- value:"}, "- log:"},
		{"", false, false, []string{"- value:"}, "- log:"},
	} {
		d := Draft{Redis: experiments.Redis{URL: "redis://h:1"}, Locks: []Lock{{Key: "leader", TTL: time.Minute, RenewEvery: 20 * time.Second, Values: c.values}}, Monitor: c.monitor,
			Processes: experiments.Processes{Match: "sched"}}
		if c.pods {
			d.Namespace, d.Selector, d.Processes = "shop", map[string]string{"app": "it"}, experiments.Processes{}
		}
		data, err := d.Text()
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(string(data), want) {
				t.Errorf("%+v: no %q in\n%s", c, want, data)
			}
		}
		if strings.Contains(string(data), "  "+c.wantNot) && !strings.Contains(string(data), "# "+c.wantNot) {
			t.Errorf("%+v: %q in\n%s", c, c.wantNot, data)
		}
	}
}

// What tells of two leaders stands in the file of a loop as two comments, which the reader takes when their marks are taken away.
func TestBeliefIsThereToBeUncommented(t *testing.T) {
	leader := []Lock{{Name: "leader", Key: "leader", TTL: time.Minute, RenewEvery: 20 * time.Second}}
	for name, d := range map[string]Draft{
		"processes": {Processes: experiments.Processes{Match: "sched"}},
		"metrics":   {Processes: experiments.Processes{Match: "sched", Metrics: "http://127.0.0.1:{pid}/metrics"}},
		"pods":      {Namespace: "shop", Selector: map[string]string{"app": "it"}},
	} {
		d.Redis, d.Locks = experiments.Redis{URL: "redis://h:1"}, leader
		data, err := d.Text()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("# belief: ", "belief: ", "# - {lock: leader, overlap", "- {lock: leader, overlap").Replace(string(data))
		e, err := experiments.Parse("uncommented.yaml", said([]byte(text)))
		if err != nil || e.Lock("leader").Belief == nil || len(e.SLOs) != 2 || e.SLOs[1].Overlap == nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	data, err := Draft{Redis: experiments.Redis{URL: "redis://h:1"}, Locks: []Lock{{KeyPrefix: "job:"}}}.Text()
	if err != nil || strings.Contains(string(data), "belief") {
		t.Errorf("of jobs: %v\n%s", err, data)
	}
}
