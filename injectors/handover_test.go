package injectors

import (
	"context"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	redisstores "github.com/lockdrill/lockdrill/stores/redis"
)

// keptBy opens a Redis of somebody's own, and its own word of who the primary is.
func (w *world) keptBy(r experiments.Redis) {
	w.Helper()
	r.Mode = experiments.RedisExternal
	opened, err := redisstores.OpenStores(w.Context(), redisstores.Options{Redis: r, NoLedger: true, Run: "test", Dir: w.TempDir()})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := opened.Close(context.WithoutCancel(w.Context())); err != nil {
			w.Error(err)
		}
	})
	w.Store, w.Open, w.Keys = opened.Locks, redisstores.Kind.Outside, ""
}

// The Sentinels of somebody's own, and a cluster, are asked for a fail-over; another server is the primary then, by its own word, and stays it.
func TestWhoeverKeepsARedisFailsItOver(t *testing.T) {
	redistest.Need(t)
	t.Run("Sentinels", func(t *testing.T) {
		w := newWorld(t)
		sentinel, primary, replica := redistest.StartSentinel(t)
		w.keptBy(experiments.Redis{Sentinel: &experiments.Sentinel{Master: redistest.SentinelMaster, URLs: []string{"redis://" + sentinel}}})
		w.failsOver(primary, replica, &fault.Store{Do: fault.StoreFailover})
	})
	t.Run("a cluster", func(t *testing.T) {
		w := newWorld(t)
		addrs := redistest.StartCluster(t)
		c := w.client(undo.Store{Addr: addrs[0]})
		slots, err := c.ClusterSlots(t.Context()).Result() //lint:ignore SA1019 as the code that is tried
		if err != nil {
			t.Fatal(err)
		}
		slot, primary := c.ClusterKeySlot(t.Context(), "leader").Val(), ""
		for _, r := range slots {
			if int64(r.Start) <= slot && slot <= int64(r.End) {
				primary = r.Nodes[0].Addr
			}
		}
		replica := redistest.FollowInCluster(t, addrs, primary)
		w.keptBy(experiments.Redis{URL: "redis://" + addrs[0], Cluster: true})
		f := &fault.Store{Do: fault.StoreFailover, Lock: "leader"}
		if _, err := w.prepared(f); voidOf(err) != "no_target" || !strings.Contains(err.Error(), "no key of lock leader was looked at") {
			t.Errorf("nobody knows its key: %v", err)
		}
		_ = w.add(history.Event{Kind: history.LookKind, Lock: "leader", Key: "leader", Span: history.At(monotime.Now()), Look: &history.Look{}})
		w.until(func() bool { // every server knows the replica
			all, err := c.ClusterSlots(t.Context()).Result() //lint:ignore SA1019 as the code that is tried
			for _, r := range all {
				if int64(r.Start) <= slot && slot <= int64(r.End) {
					return err == nil && len(r.Nodes) == 2
				}
			}
			return false
		})
		w.failsOver(primary, replica, f)
	})
}

func (w *world) failsOver(primary, replica string, f fault.Spec) {
	w.Helper()
	s, saw, err := w.strike(f)
	if want := replica + " is the primary, and " + primary + " was"; err != nil || saw.Hits != 1 || saw.Detail != want {
		w.Fatalf("%+v, %v, want %q", saw, err, want)
	}
	if said := w.client(undo.Store{Addr: replica}).Info(w.Context(), "replication").Val(); !strings.Contains(said, "role:master") {
		w.Errorf("%s is no primary: %s", replica, said)
	}
	if _, err := s.Revert(w.Context()); err != nil {
		w.Error(err)
	}
	if err := s.elsewhere(); err != nil {
		w.Error(err)
	}
}
