package worker

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// scrape reads the metrics that the replica announced.
func (r *rig) scrape() string {
	r.t.Helper()
	c := &http.Client{Timeout: patience}
	defer c.CloseIdleConnections()
	res, err := c.Get("http://" + r.await(history.ReplicaReady, nil).Replica.Metrics + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("scrape: %s, %v", res.Status, err)
	}
	return string(body)
}

func (r *rig) wantSeries(lines ...string) {
	r.t.Helper()
	all := strings.Split(r.scrape(), "\n")
	for _, line := range lines {
		if !slices.Contains(all, line) {
			r.t.Errorf("no line %q in\n%s", line, strings.Join(all, "\n"))
		}
	}
}

func TestReplicaServesItsMetrics(t *testing.T) {
	l := jobLock()
	l.Profile = "cordum/scheduler-job"
	r := launch(t, startRedis(t), "r1.2", l)
	r.send(protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "job", Job: "a", Key: "job:a", Class: "big"}})
	r.awaitAck("a", history.AckDone)
	const who = `namespace="job",policy="standard",profile="cordum/scheduler-job"`
	r.wantSeries(
		`lockcore_acquire_total{`+who+`,result="granted"} 1`,
		`lockcore_release_total{`+who+`,result="released"} 1`,
		`lockcore_held_seconds_count{class="big",`+who+`} 1`,
		`lockcore_holders{`+who+`} 0`,
	)
	addr := r.await(history.ReplicaReady, nil).Replica.Metrics
	if host, _, err := net.SplitHostPort(addr); err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("served at %q, want loopback", addr)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		_ = c.Close()
		t.Error("the metrics are served on after the end")
	}
}

// A higher fence than the job's own is seen at the ledger: with fences compared the write is refused, without it is applied; both
// are counted.
func TestStaleWritesAreCounted(t *testing.T) {
	c := startRedis(t)
	for _, unfenced := range []bool{false, true} {
		job, outcome, life := "fenced", "refused", "r1.1"
		if unfenced {
			job, outcome, life = "unfenced", "applied", "r1.2"
		}
		l := jobLock()
		l.Unfenced, l.NoLook = unfenced, true
		r := launch(t, c, life, l)
		_, err := redisstore.NewLedger(c, "run:").Write(t.Context(), lockcore.Effect{
			Key: "job:" + job, Subject: job, State: "half", Epoch: "later", Fence: 1 << 52, Op: "op-" + job, Writer: "r9.1",
		})
		if err != nil {
			t.Fatal(err)
		}
		r.offer(job, 0)
		r.await(history.WorkExit, nil)
		r.await(history.ReleaseReturn, nil)
		body := r.scrape()
		if line := `lockcore_stale_write_total{namespace="job",outcome="` + outcome + `",policy="standard",profile=""} `; !strings.Contains(body, line) ||
			strings.Contains(body, line+"0\n") {
			t.Errorf("%s: not counted as %s:\n%s", job, outcome, body)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}
