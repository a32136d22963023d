package worker

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// A drill may stand on either store.
func TestJobOnThePlainStore(t *testing.T) {
	r := launchOn(t, startRedis(t), alone, "r1.1", jobLock())
	r.offer("a", 0)
	r.awaitAck("a", history.AckDone)
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
}

const (
	lineWaiters = 16
	lineRounds  = 8 // jobs of each
	lineHold    = 5 * time.Millisecond
)

// Sixteen replicas that want one key, with back-off wake, are served in turn and do not hammer the store: it is asked at most three
// times a grant (stand in line, take, release) beside the two effects of each job, and nobody waits much longer than the others.
func TestReplicasTakeTurns(t *testing.T) {
	const most, tries = 4, 3 // p99 wait / median; of the measurement by the clock, since the machine may stall
	for try := 1; ; try++ {
		inTurns, byClock := raceForOneKey(t)
		t.Logf("try %d: p99 wait is %.1f times the median in grants of others, %.1f times by the clock", try, inTurns, byClock)
		if inTurns > most {
			t.Errorf("p99 wait is %.1f times the median, counted in the grants of others: want at most %d", inTurns, most)
		}
		if byClock <= most {
			return
		}
		if try == tries {
			t.Fatalf("p99 wait is %.1f times the median by the clock, in each of %d tries: want at most %d", byClock, tries, most)
		}
	}
}

// raceForOneKey runs the replicas on a store of their own and returns p99 / median of the waits, in two units.
func raceForOneKey(t *testing.T) (inTurns, byClock float64) {
	t.Helper()
	c := startRedis(t)
	l := jobLock()
	l.Policy.TTL, l.Policy.RenewEvery = time.Hour, 0
	l.Policy.Acquire = lockcore.Acquire{
		Mode: lockcore.AcquireWait, Timeout: 10 * time.Second, Budget: time.Minute,
		Backoff: lockcore.Backoff{Mode: lockcore.BackoffWake, Every: time.Millisecond, Cap: 50 * time.Second}, // longer than the test: nobody asks unasked
	}
	rigs := make([]*rig, lineWaiters)
	for i := range rigs {
		rigs[i] = launch(t, c, fmt.Sprintf("r%d.1", i), l)
	}
	before := scriptsRun(t, c)
	var all sync.WaitGroup
	for i, r := range rigs {
		all.Go(func() {
			for n := range lineRounds {
				job := fmt.Sprintf("%d-%d", i, n)
				r.send(protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "job", Job: job, Key: "job:shared", Hold: lineHold}})
				r.awaitAck(job, history.AckDone)
			}
		})
	}
	all.Wait()
	const grants, effects = lineWaiters * lineRounds, 2
	if n, limit := scriptsRun(t, c)-before, (3+effects)*grants+2*lineWaiters; n > limit {
		t.Errorf("%d scripts for %d grants, want at most %d", n, grants, limit)
	}
	turns, clock := waits(t, rigs)
	if len(turns) != grants {
		t.Fatalf("%d grants, want %d", len(turns), grants)
	}
	for _, r := range rigs {
		if err := r.stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	}
	return tail(turns), tail(clock)
}

// waits is how long each job waited for its lock, from its first asking: in grants of others, and in ns.
func waits(t *testing.T, rigs []*rig) (turns, clock []int64) {
	t.Helper()
	type wait struct{ asked, granted int64 }
	var all []wait
	for _, r := range rigs {
		asked := int64(0)
		for _, e := range r.all("") {
			switch {
			case e.Kind == history.AcquireInvoke && asked == 0:
				asked = e.From
			case e.Kind == history.AcquireReturn && e.Outcome == history.OK:
				all = append(all, wait{asked, e.To})
				asked = 0
			}
		}
	}
	for _, w := range all {
		n := int64(0)
		for _, o := range all {
			if o.granted >= w.asked && o.granted < w.granted {
				n++
			}
		}
		turns, clock = append(turns, n), append(clock, w.granted-w.asked)
	}
	return turns, clock
}

// tail is p99 / median.
func tail(of []int64) float64 {
	slices.Sort(of)
	return float64(of[(len(of)-1)*99/100]) / float64(max(1, of[len(of)/2]))
}

// scriptsRun is how many scripts the server has run.
func scriptsRun(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return n
}
