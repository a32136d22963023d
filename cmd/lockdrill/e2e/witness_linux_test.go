package e2e

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/promtest"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/internal/toxitest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// witnessEnv is what these tests do beyond a sample: "all".
const witnessEnv = "LOCKDRILL_WITNESS"

// witnessScale is that of the times in scenarios/witness/*.lockdrill.yaml.
const witnessScale = "0.03"

// witnessCase is a bug of a witness, and which drill, by which row, finds it out; row "" = the drill passes.
type witnessCase struct {
	bug, file, lock, row string
	often                bool // in make test-live too
}

// witnessCases are the witness's bugs, and which drill, by which row, finds each out.
var witnessCases = []witnessCase{
	{"", "kills", "", "", true},
	{"", "pauses", "", "", false},
	{"", "clients", "", "", false},
	{"", "rolling", "", "", false},
	{"", "sheet", "", "", false},
	{"", "delayed", "", "", true},
	{"", "watch", "", "", false},
	{"no-guard", "clients", "job", "duplicate_terminal_states", false},
	{"no-stop", "pauses", "job", "duplicate_terminal_states", true},
	{"no-stop", "pauses", "job", "overlap.effect", false},
	{"no-guard", "kills", "job", "duplicate_terminal_states", false},
	{"idle-leader", "kills", "reconciler", "takeover.max", false},
	{"idle-leader", "sheet", "reconciler", "takeover.max", false},
	{"idle-leader", "watch", "reconciler", "tick_gap.max", false},
	{"renew-blind", "pauses", "job", "duplicate_terminal_states", false},
	{"release-blind", "pauses", "job", "logs.lost_early", false},
	{"double-terminal", "pauses", "job", "duplicate_terminal_states", false},
	{"short-ttl", "kills", "job", "duplicate_terminal_states", false},
	{"never-release", "pauses", "job", "metric.snapshots.rate.min", false},
	{"token-reuse", "pauses", "job", "duplicate_epochs", false},
	{"swallow-errors", "pauses", "job", "duplicate_terminal_states", false},
}

// A service in another language, that knows nothing of lockdrill, is drilled as it runs: it passes as it is, and each mistake in it fails
// the promise that it breaks.
func TestLiveAServiceOfSomebodysOwnPassesAndItsBugsDoNot(t *testing.T) {
	atLength(t, "drills of twenty seconds")
	redistest.Need(t)
	witnesstest.Python(t)
	drillCases(t, witnessCases, func(t *testing.T, file, bug string, code int) *verdict.Judgement {
		if bug == "" {
			return drillWitness(t, file, code)
		}
		return drillWitness(t, file, code, "--bug", bug)
	})
	for _, bug := range witnesstest.Bugs {
		if !slices.ContainsFunc(witnessCases, func(c witnessCase) bool { return c.bug == bug }) {
			t.Errorf("no drill finds out %s", bug)
		}
	}
}

// drillCases drills the cases that are asked for, healthy ones three times where all are.
func drillCases(t *testing.T, cases []witnessCase, drill func(t *testing.T, file, bug string, code int) *verdict.Judgement) {
	all := os.Getenv(witnessEnv) == "all"
	for _, c := range cases {
		if !c.often && !all {
			continue
		}
		times := 1
		if c.bug == "" && all {
			times = 3
		}
		t.Run(c.file+"/"+c.bug, func(t *testing.T) {
			t.Parallel()
			for range times {
				if c.row == "" {
					drill(t, c.file, c.bug, verdict.ExitPass)
				} else if j := drill(t, c.file, c.bug, verdict.ExitSLOFailed); !failed(j, c.lock, c.row) {
					t.Errorf("%s does not fail %s of %s:\n%s", c.bug, c.row, c.lock, allRows(j))
				}
			}
		})
	}
}

// Jobs that are due later, and that nobody does then, are stranded, though the queue was idle when the replicas died.
func TestLiveDelayedJobsOfSomebodysOwnThatNobodyDoes(t *testing.T) {
	besideDrills(t)
	witnesstest.Python(t)
	if j := drillWitness(t, "delayed", verdict.ExitSLOFailed, "--workers", "0"); !failed(j, "jobs", "stranded") {
		t.Error(allRows(j))
	}
}

// A supervisor that leaves one replica down ends the rolling restart there, and nothing has been shown of the others.
func TestAServiceOfSomebodysOwnThatDoesNotComeBackEndsTheRollingRestart(t *testing.T) {
	onlyFor(t, witnessEnv, "all", "of make witness")
	j, got := witnessDrill{file: "rolling", args: []string{"--once", "s2"}, change: []string{"within: 20s", "within: 3s"}}.run(t, verdict.ExitInconclusive)
	lost := func(f verdict.FaultResult) bool { return f.Void && strings.HasPrefix(f.Why, "replica not replaced") }
	if !slices.ContainsFunc(j.Faults, lost) || !strings.Contains(got.stdout, "no replica took its place") {
		t.Errorf("nothing says which replica did not come back:\n%s", got.stdout)
	}
}

func failed(j *verdict.Judgement, lock, row string) bool {
	return slices.ContainsFunc(j.SLOs, func(r verdict.SLOResult) bool {
		return r.Lock == lock && r.Name() == row && r.Verdict == verdict.Fail
	})
}

// row is that of a job's lock.
func row(t *testing.T, j *verdict.Judgement, name string) verdict.SLOResult {
	t.Helper()
	i := slices.IndexFunc(j.SLOs, func(r verdict.SLOResult) bool { return r.Lock == "job" && r.Name() == name })
	if i < 0 {
		t.Fatalf("no row %s:\n%s", name, allRows(j))
	}
	return j.SLOs[i]
}

func allRows(j *verdict.Judgement) string {
	var b strings.Builder
	for _, r := range j.SLOs {
		fmt.Fprintf(&b, "%s %s %s: %s\n", r.Verdict, r.Lock, r.Name(), r.Why)
	}
	return b.String()
}

// drillWitness starts the witness on a Redis of the test's own, drills it by one of its files, and gives the judgement.
func drillWitness(t *testing.T, file string, code int, args ...string) *verdict.Judgement {
	t.Helper()
	j, _ := witnessDrill{file: file, args: args}.run(t, code)
	return j
}

// witnessDrill is a drill of the witness.
type witnessDrill struct {
	file   string
	args   []string                                                   // of the supervisor
	binary string                                                     // "" = the one that the tests have built
	before func(addr string) (args, change []string)                  // starts what stands before the Redis
	change []string                                                   // of the file
	env    []string                                                   // beside the test's
	with   func(w *witnesstest.Witness, dir string) (change []string) // starts what else the drill needs; dir is where its runs are
}

func (d witnessDrill) run(t *testing.T, code int) (*verdict.Judgement, result) {
	t.Helper()
	addr := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	must(t, client.Set(t.Context(), "lockdrill:environment", "staging", 0).Err())
	args, change := slices.Clone(d.args), slices.Clone(d.change)
	if d.file == "watch" { // no fault of it replaces a replica
		must(t, client.Set(t.Context(), "cordum:starts", witnesstest.Replicas, 0).Err())
	}
	if d.file == "delayed" { // its jobs are offered by the drill itself
		args = append(args, "--rate", "0")
	}
	if d.before != nil {
		more, edits := d.before(addr)
		args, change = append(args, more...), append(change, edits...)
	}
	w, dir := witnesstest.Start(t, addr, append([]string{"--scale", witnessScale}, args...)...), t.TempDir()
	_, port, _ := strings.Cut(addr, ":")
	change = append(change, "6390", port, "/tmp/sched", w.Dir, "scenarios/witness/supervisor.py", filepath.Join(witnesstest.Folder(), "supervisor.py"))
	if d.with != nil {
		change = append(change, d.with(w, dir)...)
	}
	text := strings.NewReplacer(change...).Replace(string(read(t, filepath.Join(witnesstest.Folder(), d.file+".lockdrill.yaml"))))
	path := filepath.Join(dir, d.file+".lockdrill.yaml")
	write(t, path, []byte(text))
	cmd := exec.Command(cmp.Or(d.binary, built), "run", path, "--environment", "staging", "--confirm", "witness-"+d.file)
	cmd.Env = append(os.Environ(), d.env...)
	got := finish(t, dir, cmd)
	if code == verdict.ExitPass {
		skipIfTooLate(t, got.code, filepath.Join(dir, "runs", "latest"))
	}
	got.ends(t, code)
	return verdictIn(t, dir), got
}

func verdictIn(t *testing.T, dir string) *verdict.Judgement {
	t.Helper()
	return judgementIn(t, filepath.Join(dir, "runs", "latest"))
}

// The same drill of lockdrill's own lock, at the same timings, is a second way to know what the witness's takeovers are: none is sooner
// than rehearsals of the twin have it, and the median is within their band. Above it a busy witness may be: it takes a job again only when
// one of its four workers is free.
func TestAServiceOfSomebodysOwnAgreesWithItsTwin(t *testing.T) {
	onlyFor(t, witnessEnv, "all", "of make witness")
	path, err := filepath.Abs(filepath.Join(witnesstest.Folder(), "twin.lockdrill.yaml"))
	must(t, err)
	dir := t.TempDir()
	tryIn(t, dir, "run", path).ends(t, verdict.ExitPass)
	twin, witness := verdictIn(t, dir), drillWitness(t, "kills", verdict.ExitPass)
	for _, band := range twin.Predicted {
		var los []float64
		for _, x := range witness.Takeovers {
			if x.Lock != band.Lock || x.Hi == nil {
				continue
			}
			if los = append(los, x.Lo); *x.Hi < band.Lo-band.Margin {
				t.Errorf("%s: a takeover of [%g, %g]s, the twin's begin at %gs", band.Lock, x.Lo, *x.Hi, band.Lo)
			}
		}
		slices.Sort(los)
		if band.Hi == nil {
			t.Fatalf("%s: the twin's takeovers have no end: %+v", band.Lock, band)
		}
		if len(los) == 0 || los[len(los)/2] > *band.Hi+band.Margin {
			t.Errorf("%s: takeovers %v, the twin's are within %+v", band.Lock, los, band)
		}
		t.Logf("%s: takeovers of the witness from %v; of its twin [%g, %g], margin %g", band.Lock, los, band.Lo, *band.Hi, band.Margin)
	}
}

// Its jobs may as well end in a table of PostgreSQL; the drivers of databases are in the full build.
func TestAServiceOfSomebodysOwnWithItsJobsInPostgreSQL(t *testing.T) {
	onlyFor(t, witnessEnv, "all", "of make witness")
	dsn := sqltest.Postgres(t)
	_, where, _ := strings.Cut(dsn, "@")
	where, _, _ = strings.Cut(where, "?")
	full := filepath.Join(t.TempDir(), "lockdrill")
	must(t, testkit.Build(full, "full"))
	table := []string{`stream: "cordum:jobs:log"`, `sql: {driver: postgres, dsn_env: WITNESS_DSN, cursor: id, query: "SELECT id, job_id, status, op_id, worker, token, lock_key FROM effects WHERE job_id IS NOT NULL AND id > $1 ORDER BY id"}`}
	for _, c := range []struct {
		bug  string
		code int
	}{{"", verdict.ExitPass}, {"no-stop", verdict.ExitSLOFailed}} {
		args := []string{"--ledger", "postgres://lockdrill@" + where}
		if c.bug != "" {
			args = append(args, "--bug", c.bug)
		}
		j, _ := witnessDrill{file: "pauses", args: args, binary: full, change: table, env: []string{"WITNESS_DSN=" + dsn}}.run(t, c.code)
		if c.bug != "" && !failed(j, "job", "duplicate_terminal_states") {
			t.Errorf("%s: %s", c.bug, allRows(j))
		}
	}
}

// How often its locks are given up, a Prometheus server tells that scrapes it, and its logs. Both say the same.
func TestAServiceOfSomebodysOwnIsJudgedByItsPrometheusAndLogs(t *testing.T) {
	onlyFor(t, witnessEnv, "all", "of make witness")
	j, _ := witnessDrill{file: "signals", with: func(w *witnesstest.Witness, _ string) []string {
		return []string{"http://127.0.0.1:9090", promtest.Start(t, w.Metrics()...).URL}
	}}.run(t, verdict.ExitPass)
	counted, lines := row(t, j, "abandonments"), row(t, j, "logs.gave_up.min")
	if n := float64(lines.N); n < counted.Lo || counted.Hi != nil && n > *counted.Hi || counted.N != witnesstest.Replicas {
		t.Errorf("the logs have %g abandonments, the server %+v\n%s", n, counted, allRows(j))
	}
}

// The shipped file of faults of the network, against a service behind a Toxiproxy of its owner's: what the service lost by them is seen.
func TestAServiceOfSomebodysOwnIsDrilledThroughItsToxiproxy(t *testing.T) {
	besideDrills(t)
	onlyFor(t, witnessEnv, "all", "of make witness; make test-live cuts off a holder by its own proxy")
	witnesstest.Python(t)
	addr, api := redistest.Start(t), toxitest.Start(t).URL
	listen := theirWay(t, api, "redis", addr)
	if asked(t, addr, "SET lockdrill:environment staging") != "+OK" {
		t.Fatal("the Redis does not say what it is")
	}
	w := witnesstest.Start(t, listen, "--scale", witnessScale)
	_, behind, _ := net.SplitHostPort(addr)
	_, before, _ := net.SplitHostPort(listen)
	text := string(read(t, filepath.Join(witnesstest.Folder(), "network.lockdrill.yaml")))
	text = strings.NewReplacer("6390", behind, "6391", before, "http://127.0.0.1:8474", api, "/tmp/sched", w.Dir).Replace(text)
	dir := folder(t, "network.lockdrill.yaml", text)
	cmd := exec.Command(built, "run", "network.lockdrill.yaml", "--confirm", "witness-network")
	cmd.Dir, cmd.Env = dir, os.Environ()
	got := finish(t, dir, cmd)
	skipIfTooLate(t, got.code, filepath.Join(dir, "runs", "latest"))
	got.ends(t, verdict.ExitPass)
	j := verdictIn(t, dir)
	for _, shot := range []string{"late#1", "nobody-listens#1"} {
		if !slices.ContainsFunc(j.Takeovers, func(x verdict.Takeover) bool { return x.Fault == shot && x.Lo > 1 }) {
			t.Errorf("no lock was lost by %s: %+v", shot, j.Takeovers)
		}
	}
	theirWayIs(t, api, "redis", listen, addr)
}
