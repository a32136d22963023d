package deploy_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// gameDay is an experiment whose replicas are pods, changed as old, new, old, new ... say.
func gameDay(t *testing.T, changes ...string) *experiments.Experiment {
	t.Helper()
	text := string(testkit.Read(t, "testdata/game-day.yaml"))
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("nothing to change: %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	e, err := experiments.Parse("game-day.yaml", []byte(text))
	testkit.Must(t, err)
	return e
}

func workersOf(t *testing.T, e *experiments.Experiment, fleet string) deploy.WorkersOptions {
	t.Helper()
	o, err := deploy.WorkersFor(e, fleet)
	testkit.Must(t, err)
	return o
}

func jobOf(t *testing.T, e *experiments.Experiment) deploy.JobOptions {
	t.Helper()
	var o deploy.JobOptions
	if err := o.Drill(e); err != nil {
		t.Fatal(err)
	}
	o.Resolved = []byte("name: game-day\n")
	return o
}

// manifests renders every kind of manifest, with few and with many options.
func manifests(t *testing.T) map[string][][]byte {
	t.Helper()
	applied := workersOf(t, gameDay(t, "ledger.staging.svc:6380\"", "ledger.staging.svc:6380\", username_env: LEDGER_USER, password_env: LEDGER_PASSWORD",
		"grace: 20s", "grace: 20s, container: taker, ledger: \"ledger.pods:7000\""), "20261121T030000.000Z-game-day")
	applied.Run, applied.Files, applied.CA = applied.Fleet, map[string][]byte{"ledger-ca.pem": []byte("-----BEGIN\n")}, deploy.FilesDir+"/ledger-ca.pem"
	applied.Env = map[string]string{"LOCKDRILL_IGNORE_TERM": "1"}
	ordered := workersOf(t, gameDay(t, "grace: 20s", "grace: 20s, workers: statefulset"), "game-day")
	exported := workersOf(t, gameDay(t), "game-day")
	exported.Experiment = []byte("name: game-day\n")
	gate := jobOf(t, gameDay(t))
	gate.Release, gate.Ephemeral, gate.Flags = "v1.4.2", true, []string{"--on-inconclusive", "pass"}
	asks := jobOf(t, gameDay(t))
	asks.Suspend, asks.Plan = true, "sha256:0a1b"
	kept := jobOf(t, gameDay(t))
	kept.Claim, kept.Account = "reports", "drills"
	left := jobOf(t, gameDay(t))
	left.Recover, left.Flags = true, []string{"--on-inconclusive", "pass"}
	day := jobOf(t, gameDay(t))
	day.Schedule, day.TimeZone = "0 3 * * 1-5", "Europe/Berlin"
	brought := jobOf(t, gameDay(t))
	brought.Upload = "http://lockdrill-server.staging:8420"
	network, err := deploy.NetworkFor(gameDay(t, "ledger.staging.svc:6380\"}", "ledger.staging.svc:6380\"}\nproxy: {mode: external, url: \"http://toxiproxy:8474\"}",
		"grace: 20s", "grace: 20s, redis: \"redis.pods:6379\""))
	testkit.Must(t, err)
	all := map[string][][]byte{}
	for name, render := range map[string]func() ([][]byte, error){
		"workers-applied":  func() ([][]byte, error) { return deploy.Workers(applied) },
		"workers-exported": func() ([][]byte, error) { return deploy.Workers(exported) },
		"workers-stateful": func() ([][]byte, error) { return deploy.Workers(ordered) },
		"job-asks":         func() ([][]byte, error) { return deploy.Job(asks) },
		"job-gate":         func() ([][]byte, error) { return deploy.Job(gate) },
		"job-kept":         func() ([][]byte, error) { return deploy.Job(kept) },
		"job-recover":      func() ([][]byte, error) { return deploy.Job(left) },
		"cronjob":          func() ([][]byte, error) { return deploy.CronJob(day) },
		"toxiproxy": func() ([][]byte, error) {
			return deploy.Toxiproxy(deploy.ToxiproxyOptions{Namespace: "staging", Image: "registry.example/toxiproxy:2.12.0"})
		},
		"job-uploads": func() ([][]byte, error) { return deploy.Job(brought) },
		"server": func() ([][]byte, error) {
			return deploy.Server(deploy.ServerOptions{Namespace: "staging", Image: "registry.example/lockdrill:1.0.0"})
		},
		"server-kept": func() ([][]byte, error) {
			return deploy.Server(deploy.ServerOptions{Name: "runs", Image: "registry.example/lockdrill:1.0.0", Secret: "tokens", Claim: "reports", Storage: "2Gi"})
		},
		"watch": func() ([][]byte, error) {
			return deploy.Watch(deploy.WatchOptions{Namespace: "staging", Image: "registry.example/lockdrill:1.0.0", Redis: experiments.Redis{URL: "redis://redis.shop:6379", PasswordEnv: "REDIS_PASSWORD"}, Keys: []string{"sched:*", "jobs:*"}})
		},
		"watch-leases": func() ([][]byte, error) {
			return deploy.Watch(deploy.WatchOptions{Namespace: "shop", Image: "registry.example/lockdrill:1.0.0", Leases: []string{"billing-leader"}, Holder: "^(?P<holder>[^_]+)"})
		},
		"network": func() ([][]byte, error) { return deploy.Network(network) },
		"role": func() ([][]byte, error) {
			return deploy.Role(deploy.RoleOptions{Name: "lockdrill-game-day-runner", Namespace: "staging", Rules: []deploy.Rule{
				{Resource: "pods", Verbs: []string{"get", "list", "watch"}},
				{Resource: "pods", Subresource: "exec", Verbs: []string{"create"}},
				{APIGroup: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Names: []string{"lockdrill-run"}},
			}})
		},
		"role-of-two-namespaces": func() ([][]byte, error) {
			return deploy.Role(deploy.RoleOptions{Name: "lockdrill-game-day-runner", Namespace: "staging", ServiceAccount: "ours", Rules: []deploy.Rule{
				{Resource: "pods", Verbs: []string{"get"}}, {Resource: "pods", Verbs: []string{"list"}, Namespace: "shop"}, {Resource: "pods", Verbs: []string{"delete"}, Namespace: "shop"},
			}})
		},
		"role-of-nodes": func() ([][]byte, error) {
			return deploy.Role(deploy.RoleOptions{Name: "lockdrill-game-day-runner", Namespace: "staging", ServiceAccount: "ours", Rules: []deploy.Rule{
				{Resource: "pods", Verbs: []string{"get"}}, {Resource: "nodes", Verbs: []string{"get", "patch"}, Wide: true},
			}})
		},
	} {
		docs, err := render()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = docs
	}
	return all
}

func TestGoldenManifests(t *testing.T) {
	var book golden.Book
	made := manifests(t)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		book.Add(name, string(deploy.Join(made[name])))
	}
	isGolden(t, "kube.txt", book.String())
}

// strictly decodes one manifest into the API's own type: a field that it does not have, or that is there twice, is an error.
func strictly(t *testing.T, doc []byte) runtime.Object {
	t.Helper()
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	o, _, err := s.Decode(doc, nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return o
}

// The test itself is tried on what it must refuse.
func TestStrictlyIsStrict(t *testing.T) {
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	if _, _, err := s.Decode([]byte("apiVersion: v1\nkind: ServiceAccount\nautomountServiceAcountToken: false\n"), nil, nil); err == nil {
		t.Error("a misspelled field is decoded")
	}
}

// Every manifest is what the API knows, and every pod is one that a namespace with the pod security standard "restricted" takes.
func TestManifestsAreTheAPIs(t *testing.T) {
	pods := 0
	for name, docs := range manifests(t) {
		for _, doc := range docs {
			var spec *corev1.PodSpec
			switch o := strictly(t, doc).(type) {
			case *appsv1.Deployment:
				spec = &o.Spec.Template.Spec
				for k, v := range o.Spec.Selector.MatchLabels {
					if o.Spec.Template.Labels[k] != v {
						t.Errorf("%s: the selector's %s is not on the pods", name, k)
					}
				}
			case *batchv1.Job:
				spec = &o.Spec.Template.Spec
			case *batchv1.CronJob:
				spec = &o.Spec.JobTemplate.Spec.Template.Spec
			}
			if spec != nil {
				pods++
				restricted(t, name, spec)
			}
		}
	}
	if pods != 13 {
		t.Errorf("%d manifests with pods", pods)
	}
}

func restricted(t *testing.T, name string, spec *corev1.PodSpec) {
	t.Helper()
	p := spec.SecurityContext
	for _, of := range append(spec.InitContainers, spec.Containers...) {
		if c := of.SecurityContext; *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: container %s is not restricted: %+v", name, of.Name, c)
		}
	}
	switch {
	case !*p.RunAsNonRoot || *p.RunAsUser == 0 || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("%s: not restricted: %+v", name, p)
	case spec.HostNetwork, spec.HostPID, spec.HostIPC, len(spec.Containers) != 1:
		t.Errorf("%s: %+v", name, spec)
	case spec.TerminationGracePeriodSeconds == nil || *spec.TerminationGracePeriodSeconds == 0:
		t.Errorf("%s: no grace", name)
	}
	if limit := spec.Containers[0].Resources.Limits; limit.Memory().IsZero() || !limit.Cpu().IsZero() {
		t.Errorf("%s: limits %v: memory is bounded, and nobody throttles what measures time", name, limit)
	}
}

// What the API server makes of the YAML is what was meant, whatever the strings are.
func TestManifestsKeepHostileStrings(t *testing.T) {
	hostile := []string{"yes", "0755", "1:20", "on", "null", "~", "a: b", "# c", "'", "\"", "0x1f", "1e3", "<<", "é\u2028", "two\nlines", " indented\n\nfile\n", "tab\there", ""}
	for _, s := range hostile {
		o := workersOf(t, gameDay(t), "game-day")
		o.Env, o.Files = map[string]string{"HOSTILE": s}, map[string][]byte{"file": []byte(s)}
		docs, err := deploy.Workers(o)
		testkit.Must(t, err)
		env := strictly(t, docs[2]).(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Env
		if got := env[len(env)-1].Value; got != s {
			t.Errorf("%q became %q", s, got)
		}
		if got := strictly(t, docs[1]).(*corev1.ConfigMap).Data["file"]; got != s {
			t.Errorf("file %q became %q", s, got)
		}
	}
}

// Names and labels are ones that the API takes, and different ones for different ids.
func TestNames(t *testing.T) {
	const letters = "abcXYZ019._-/: +"
	r := rand.New(rand.NewPCG(6, 6))
	names, labels := map[string]string{}, map[string]string{}
	ids := []string{"game-day", "Game-Day", "game.day", "game_day", "game-day-", "feature/x:1", "release 7", "größer", "/", strings.Repeat("a", 63), strings.Repeat("a", 62) + "b", "20261121T030000.000Z-" + strings.Repeat("x", 63)}
	for range 2000 {
		id := "a"
		for range r.IntN(90) {
			id += letters[r.IntN(len(letters)):][:1]
		}
		ids = append(ids, id)
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		name, label := deploy.ObjectName(id), deploy.LabelValue(id)
		// The Deployment's pods get 17 letters more, and the longest name beside it has "-results".
		if bad := validation.IsDNS1123Label(name + "-0123456789-abcde"); len(bad) > 0 || name != strings.ToLower(name) {
			t.Errorf("%q: name %q: %v", id, name, bad)
		}
		if bad := validation.IsValidLabelValue(label); len(bad) > 0 {
			t.Errorf("%q: label %q: %v", id, label, bad)
		}
		if names[name] != "" || labels[label] != "" {
			t.Errorf("%q has the name of %q or the label of %q", id, names[name], labels[label])
		}
		names[name], labels[label] = id, id
	}
	if got := deploy.ObjectName("game-day"); got != "lockdrill-game-day" {
		t.Errorf("a plain name became %q", got)
	}
}

func TestWorkersThatCannotBe(t *testing.T) {
	for want, e := range map[string]*experiments.Experiment{
		"ledger.url":              gameDay(t),
		"kubernetes.image":        gameDay(t, "pods: apply, image: \"registry.example/lockdrill:1.0.0\", ", "pods: use, "),
		"section kubernetes":      gameDay(t),
		"pods of your own, so th": gameDay(t),
	} {
		switch want {
		case "ledger.url":
			e.Ledger.URL = ""
		case "section kubernetes":
			e.Kubernetes = nil
		case "pods of your own, so th":
			e.System.Mode = experiments.ModeObserve
		}
		if _, err := deploy.WorkersFor(e, "f"); !errors.Is(err, deploy.ErrNoPods) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o := workersOf(t, gameDay(t), "f")
	o.Join = "redis://me:secret@ledger:6379"
	if _, err := deploy.Workers(o); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a password in the URL: %v", err)
	}
}

// The run is given the time that undoing takes, a minute and a half where the API server does not answer, and the cluster ends no run that
// keeps its own limit.
func TestJobLeavesTimeToCleanUp(t *testing.T) {
	for _, faults := range []int{0, 2, 40} {
		e := gameDay(t)
		e.Faults = slices.Repeat(e.Faults[:1], faults)
		docs, err := deploy.Job(jobOf(t, e))
		testkit.Must(t, err)
		spec := strictly(t, docs[len(docs)-1]).(*batchv1.Job).Spec
		grace := time.Duration(*spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
		deadline := time.Duration(*spec.ActiveDeadlineSeconds) * time.Second
		if grace < time.Duration(faults)*15*time.Second+e.Kubernetes.Grace+90*time.Second || deadline < e.Limits.MaxRun+grace {
			t.Errorf("%d faults: grace %s, deadline %s", faults, grace, deadline)
		}
	}
}

// A server that is slow to take a run costs no verdict: the cluster waits for it. The token is the drill's alone, so a recovery needs none.
func TestAJobThatUploads(t *testing.T) {
	of := func(change func(*deploy.JobOptions)) batchv1.JobSpec {
		o := jobOf(t, gameDay(t))
		change(&o)
		docs, err := deploy.Job(o)
		testkit.Must(t, err)
		return strictly(t, docs[len(docs)-1]).(*batchv1.Job).Spec
	}
	const url = "http://lockdrill-server.staging:8420"
	token := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.Name == deploy.UploadTokenEnv && e.ValueFrom.SecretKeyRef.Key == e.Name && e.ValueFrom.SecretKeyRef.Name == deploy.DefaultSecret
		})
	}
	plain := of(func(*deploy.JobOptions) {})
	up := of(func(o *deploy.JobOptions) { o.Upload = url })
	bare := of(func(o *deploy.JobOptions) { o.Upload, o.SecretEnv = url, nil })
	undo := of(func(o *deploy.JobOptions) { o.Upload, o.Recover = url, true })
	for name, spec := range map[string]batchv1.JobSpec{"up": up, "bare": bare} {
		pod := spec.Template.Spec
		if c := pod.Containers[0]; !token(c) || !strings.HasSuffix(strings.Join(c.Args, " "), " --upload "+url) || token(pod.InitContainers[0]) {
			t.Errorf("%s: %+v", name, pod)
		}
		if more := *spec.ActiveDeadlineSeconds - *plain.ActiveDeadlineSeconds; time.Duration(more)*time.Second != deploy.UploadWithin {
			t.Errorf("%s: %d s more", name, more)
		}
	}
	if c := undo.Template.Spec.Containers[0]; token(c) || strings.Contains(strings.Join(c.Args, " "), url) {
		t.Errorf("%+v", c)
	}
}

// The server takes uploads only while its claim has room for them.
func TestServerFitsItsClaim(t *testing.T) {
	for storage, want := range map[string]string{"": "19327352832", "2Gi": "1932735276", "100G": "90000000000", "1Gi": "", "much": "", "-1": ""} {
		docs, err := deploy.Server(deploy.ServerOptions{Image: "i", Storage: storage})
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", storage, err)
		} else if err == nil {
			args := strictly(t, docs[2]).(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Args
			if args[len(args)-1] != want {
				t.Errorf("%q: %q, want %s", storage, args, want)
			}
		}
	}
}

// Egress is open to whatever an experiment makes its pods reach: a policy that shuts one of these out blinds the drill.
func TestNetworkReachesAllThatADrillDoes(t *testing.T) {
	e := gameDay(t, "slos:", `probes:
  metrics:
    - {name: a, scrape: "http://exporter:9121/metrics", series: a_total}
    - {name: b, scrape: "http://exporter/metrics", series: b_total}
    - {name: c, scrape: "https://exporter/metrics", series: c_total}
slos:`)
	o, err := deploy.NetworkFor(e)
	testkit.Must(t, err)
	if want := []int{80, 443, 6379, 6380, 9121}; !slices.Equal(o.Ports, want) {
		t.Errorf("ports %d, want %d", o.Ports, want)
	}
	// Of pods of somebody's own.
	e.Redis = experiments.Redis{Sentinel: &experiments.Sentinel{URLs: []string{"redis://a", "rediss://b:26380"}}, Replica: "redis://replica:6390"}
	e.Ledger, e.Probes.Metrics, e.Proxy.API, e.Kubernetes.APIProxy = experiments.LedgerStore{}, nil, "unix:/run/proxy", "http://proxy:6381"
	e.System.Holder = []experiments.HolderSource{{Metric: &experiments.HolderMetric{URL: "http://{ip}:9188/metrics"}}, {Proxy: &experiments.HolderProxy{API: "http://proxy:6382"}}}
	e.System.Effects = []experiments.Effects{{HTTP: &experiments.HTTPEffects{URL: "http://jobs:8080/list"}}, {Redis: experiments.LedgerStore{URL: "redis://effects:6391"}}}
	if o, err = deploy.NetworkFor(e); err != nil {
		t.Fatal(err)
	}
	if want := []int{6381, 6382, 6390, 6391, 8080, 9188, 26379, 26380}; !slices.Equal(o.Ports, want) {
		t.Errorf("ports %d, want %d", o.Ports, want)
	}
}
