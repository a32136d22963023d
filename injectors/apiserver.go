package injectors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/apiproxy"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/tap"
)

// APIServer has a lockdrill proxy before the API server make it slow, read-only or away for the victims, or lose one answer to them, which the proxy knows by the
// addresses of their pods. The proxy counts what it did.
type APIServer struct {
	API, Run string // of the proxy; of the drill
	Pods     interface {
		Pod(ctx context.Context, name, container string) (p kube.Pod, ok bool, err error)
	}
	Fault func(id string) fault.Spec
	Past  func() []history.Event
	Clock func() int64
}

// Within is how long beyond its own time a shot may take.
func (a *APIServer) Within(history.Event) time.Duration { return callWithin }

// Prepare names the fault at the proxy.
func (a *APIServer) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	_, err := a.from(ctx, shot)
	return undo.Record{Tap: &undo.Tap{API: a.API, ID: a.Run + "-" + strings.ReplaceAll(shot.Op, "#", ".")}}, err
}

// from are the addresses of the victim; none = everybody's.
func (a *APIServer) from(ctx context.Context, shot history.Event) ([]string, error) {
	victim := shot.Fault.Victim
	if a.Fault(shot.Fault.ID).Target().All || victim == "" {
		return nil, nil
	}
	pod := podOf(a.Past(), shot)
	if pod == nil {
		return nil, &voidError{history.NoTarget, victim + " is in no pod that is known"}
	}
	switch p, there, err := a.Pods.Pod(ctx, pod.Name, ""); {
	case err != nil:
		return nil, fmt.Errorf("look at pod %s: %w", pod.Name, err)
	case !there || p.UID != pod.UID || p.IP == "":
		return nil, &voidError{history.Moved, fmt.Sprintf("pod %s of %s is gone, or has no address", pod.Name, victim)}
	default:
		return []string{p.IP}, nil
	}
}

// Inject arms the proxy.
func (a *APIServer) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span, spec := history.At(a.Clock()), a.Fault(r.Shot.Fault.ID).(*fault.APIServer)
	from, err := a.from(ctx, r.Shot)
	if err != nil {
		return span, err
	}
	span = history.At(a.Clock())
	err = apiproxy.Arm(ctx, r.Tap.API, apiproxy.Fault{ID: r.Tap.ID, Do: string(spec.Do), Delay: spec.Delay, Of: string(spec.Of), For: time.Duration(r.Shot.Fault.Declared), From: from})
	if span.To = a.Clock(); err != nil {
		return span, &voidError{history.FaultFailed, err.Error()}
	}
	return span, nil
}

// Confirm asks until the proxy has struck the victim.
func (a *APIServer) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	c, window := tap.NewClient(r.Tap.API), applied
	for range poll.Every(ctx, proxyEvery) {
		now, err := c.Fault(ctx, r.Tap.ID)
		window.To = a.Clock()
		switch {
		case errors.Is(err, tap.ErrNoFault):
			return window, history.Fault{}, &voidError{history.Unconfirmed, "the proxy was started anew, and knows no fault any more"}
		case err == nil && now.Hits > 0:
			return window, history.Fault{Hits: now.Hits}, nil
		case err == nil && now.Over:
			return window, history.Fault{}, &voidError{history.Unconfirmed,
				"nothing that was struck came from the victim's address: do the electors go round the proxy, or does the cluster's network hide the addresses of pods? Or did they write nothing of that kind?"}
		}
	}
	return window, history.Fault{}, &voidError{history.Unconfirmed, history.RunEndedFirst}
}

// Revert ends the fault, and reads back that it has ended.
func (a *APIServer) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(a.Clock())
	if err := endAtProxy(ctx, r); err != nil {
		return span, err
	}
	now, err := tap.NewClient(r.Tap.API).Fault(ctx, r.Tap.ID)
	span.To = a.Clock()
	if err == nil && !now.Over {
		return span, fmt.Errorf("fault %s is still in effect at the proxy", r.Tap.ID)
	}
	return span, nil
}
