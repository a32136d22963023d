package e2e

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// benchOf is a Prometheus that scrapes the witness, with the rules for the names of its metrics.
func benchOf(t *testing.T, w *witnesstest.Witness) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir()}
	write(t, filepath.Join(b.dir, "mapping.yaml"), []byte("extends: cordum\nsignals: {duplicate_terminal_states: {series: finished_again_total}}\n"))
	scale, err := strconv.ParseFloat(witnessScale, 64)
	must(t, err)
	b.start(t, scale, "--metrics", "mapping.yaml")
	serve := map[string]string{}
	for _, at := range w.Metrics() {
		serve[at] = at
	}
	b.scrape(serve)
	return b
}

// alertRows holds the rows about alerts to be met, and counts them.
func alertRows(t *testing.T, j *verdict.Judgement) (rows int) {
	t.Helper()
	for _, r := range j.Rows() {
		if !strings.HasPrefix(r.Measure, "alert.") {
			continue
		}
		if rows++; r.Verdict != verdict.Pass {
			t.Errorf("%+v", r)
		}
		t.Logf("%s: %s, %.1f s to %s", r.Measure, r.Verdict, r.Lo, atMostText(r.Hi))
	}
	return rows
}

// Only an application can count the jobs that it finished twice. This one does: the alert on that fires beside the drill of a witness
// that works on after its lock is lost, and beside that of one which does not it is silent.
func TestAServiceOfSomebodysOwnRaisesTheAlertOnWhatItCounts(t *testing.T) {
	onlyFor(t, "LOCKDRILL_ALERTS", "", "of make alerts")
	for name, c := range map[string]struct {
		args []string
		code int
		row  string
	}{
		"works on": {[]string{"--bug", "no-stop"}, verdict.ExitSLOFailed, "{fault: gc-pause, alert: LockDuplicateTerminalState, within: 20s, resolves_within: 40s}"},
		"stops":    {nil, verdict.ExitPass, "{alert: LockDuplicateTerminalState, silent: true, within: 40s}"},
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			d := witnessDrill{file: "pauses", args: c.args, with: func(w *witnesstest.Witness, dir string) []string {
				b = benchOf(t, w)
				return []string{
					// while the alert answers, no other fault may come
					"  - {id: silent-store, at: 9s, for: 400ms, repeat: {count: 3, every: 2s}, store: {do: pause}}\n", "", "allow_overlap: [[gc-pause, silent-store]]\n", "",
					"probes:\n", "probes:\n  alerts: {url: \"" + b.url + "\", every: 200ms}\n", "slos:\n", "slos:\n  - " + c.row + "\n",
				}
			}}
			j, _ := d.run(t, c.code)
			if rows := alertRows(t, j); rows == 0 {
				t.Errorf("no row:\n%s", allRows(j))
			}
			t.Logf("at the end %q fire", b.firing(t))
		})
	}
}

// For fifty minutes of production nobody gets the lock of a job. The shipped file asks for both alerts on jobs that wait, and for their end;
// before, both were silent, or the rows would have no answer.
func TestAServiceOfSomebodysOwnRaisesTheAlertsOnJobsThatWait(t *testing.T) {
	onlyFor(t, "LOCKDRILL_ALERTS", "", "of make alerts")
	needDrill(t)
	addr := redistest.Start(t)
	clients, api := startProxy(t, "--upstream", addr)
	if asked(t, addr, "SET lockdrill:environment staging") != "+OK" {
		t.Fatal("the Redis does not say what it is")
	}
	w := witnesstest.Start(t, clients, "--scale", witnessScale, "--rate", "2")
	b := benchOf(t, w)
	_, behind, _ := net.SplitHostPort(addr)
	_, before, _ := net.SplitHostPort(clients)
	text := string(read(t, filepath.Join(witnesstest.Folder(), "backlog.lockdrill.yaml")))
	text = strings.NewReplacer("http://127.0.0.1:6381", api, "6390", behind, "6391", before, "http://127.0.0.1:9090", b.url, "/tmp/sched", w.Dir).Replace(text)
	dir := folder(t, "backlog.lockdrill.yaml", text)
	got := tryIn(t, dir, "run", "backlog.lockdrill.yaml", "--confirm", "witness-backlog")
	got.ends(t, verdict.ExitPass)
	if rows := alertRows(t, verdictIn(t, dir)); rows != 4 {
		t.Errorf("%d rows about alerts, want when each fired and when it went away\n%s", rows, got.stdout)
	}
}
