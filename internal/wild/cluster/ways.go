// Package cluster is what locks of Lease objects stand on, and the faults of the way to that and to a ZooKeeper.
package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/proxies/apiproxy"
)

// way is a fault of a proxy on the way of replicas to their store: for the victim alone, or for all.
type way struct {
	apiproxy.Fault
	All bool
}

// Ways are the faults that Strike knows.
var Ways = map[string]way{
	"cut":          {Fault: apiproxy.Fault{Do: apiproxy.Slow, Delay: time.Hour}},
	"late":         {Fault: apiproxy.Fault{Do: apiproxy.Slow, Delay: 2500 * time.Millisecond}, All: true},
	"refuse":       {Fault: apiproxy.Fault{Do: apiproxy.RefuseWrites}},
	"lose-acquire": {Fault: apiproxy.Fault{Do: apiproxy.LoseReply, Of: "acquire"}},
	"lose-release": {Fault: apiproxy.Fault{Do: apiproxy.LoseReply, Of: "release"}},
}

// Hooks serves POST /FAULT/STEP of a hook, which ask sends, with the fault's id and the victim's name.
func Hooks(fault func(ctx context.Context, what, step, id, victim string) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{fault}/{step}", func(w http.ResponseWriter, r *http.Request) {
		if err := fault(r.Context(), r.PathValue("fault"), r.PathValue("step"), r.FormValue("id"), r.FormValue("victim")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	return mux
}

// Strike takes a step of a hook (do, confirm, undo) with f.
func Strike(ctx context.Context, proxy *apiproxy.Proxy, f apiproxy.Fault, step string) error {
	switch step {
	case "do":
		f.For = time.Minute
		return proxy.Arm(f)
	case "confirm":
		return Until(ctx, "nothing was struck", func() bool {
			return slices.ContainsFunc(proxy.Faults(), func(s apiproxy.Status) bool { return s.ID == f.ID && s.Hits > 0 })
		})
	}
	proxy.End(f.ID, "undone")
	return nil
}

// Until asks fifty times a second whether it is so.
func Until(ctx context.Context, why string, so func() bool) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", why, ctx.Err())
		}
	}
	return nil
}
