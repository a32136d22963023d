package drills

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/due"
)

// ErrNo is the kind of error that somebody is told who asks for what may not be; any other is the server's own.
var ErrNo = errors.New("")

func no(format string, args ...any) error {
	return fmt.Errorf("%w"+format, append([]any{ErrNo}, args...)...)
}

// Plan is what lockdrill plan says of a drill.
type Plan struct {
	Text string
	Hash string // "" = it cannot be made: Text says why
}

const (
	planWithin = time.Minute
	mostPlan   = 256 << 10
)

var hashLine = regexp.MustCompile(`(?m)^hash  (sha256:[0-9a-f]{64})$`)

// Plan asks lockdrill what a run of the drill would do. It touches nothing.
func (k *Keeper) Plan(ctx context.Context, drill string) (plan Plan, err error) {
	s, _ := k.Schedule()
	p := s.Drill(drill)
	if p == nil {
		return plan, no("no drill of the schedule is called %q", drill)
	}
	select {
	case k.planning <- struct{}{}:
		defer func() { <-k.planning }()
	case <-ctx.Done():
		return plan, ctx.Err()
	}
	path, err := k.file(p)
	if err != nil {
		return plan, no("%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	out := &tail{most: mostPlan}
	cmd := exec.CommandContext(ctx, k.o.Binary, append([]string{"plan", path, "--hash"}, consent(p)...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = k.o.Experiments, out, out, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	_ = cmd.Run() // a plan that a guard refuses now, or that gives no answer, is a plan
	plan.Text = out.String()
	if m := hashLine.FindStringSubmatch(plan.Text); m != nil {
		plan.Hash = m[1]
	}
	if ctx.Err() != nil && plan.Hash == "" {
		return plan, fmt.Errorf("the plan was not made within %s", planWithin)
	}
	return plan, nil
}

// consent are the flags by which the schedule's author says what run and plan are to be told.
func consent(p *experiments.Planned) (flags []string) {
	for _, f := range [][2]string{{"--confirm", p.Confirm}, {"--environment", p.Environment}, {"--context", p.Context}, {"--namespace", p.Namespace}} {
		if f[1] != "" {
			flags = append(flags, f[0], f[1])
		}
	}
	return flags
}

// Ask is somebody's wish for a run: as soon as may be, or for its next time. hash is of the plan that they have seen; it must be that of
// now, and is needed where somebody else has to approve it.
func (k *Keeper) Ask(ctx context.Context, drill, by, hash string, next bool) (id string, err error) {
	s, _ := k.Schedule()
	p := s.Drill(drill)
	now := k.o.Now()
	switch {
	case p == nil:
		return "", no("no drill of the schedule is called %q", drill)
	case by == "":
		return "", no("a run is asked for by somebody with a name")
	case hash == "" && p.Approval != "":
		return "", no("drill %s needs approval: say the hash of the plan that you ask for", drill)
	case next && p.Approval == "":
		return "", no("drill %s runs at its next time by itself", drill)
	}
	for _, r := range k.book.Requests() {
		if r.Drill == drill && r.Slot.IsZero() != next {
			return "", no("%s has asked for drill %s already", r.By, drill)
		}
	}
	e := Entry{At: now, Kind: Asked, Drill: drill, Request: strings.ToLower(rand.Text()[:12]), By: by, Hash: hash, Until: now.Add(p.ApprovalFor)}
	if p.Approval == "" {
		e.Until = now.Add(p.Wait + time.Minute)
	}
	if next {
		slot, ok := due.Next(p, k.seed, now)
		if !ok {
			return "", no("drill %s has no next time: it runs on demand", drill)
		}
		e.Slot, e.Until = slot.Shown(), slot.Shown().Add(p.Wait)
		if slot.Random() {
			e.Until = slot.To.Add(p.Wait)
		}
	}
	if hash != "" {
		plan, err := k.Plan(ctx, drill)
		if err != nil {
			return "", err
		}
		if plan.Hash != hash {
			return "", no("the plan is another one by now: read it again")
		}
	}
	defer k.poke()
	return e.Request, k.book.Add(e)
}

// Approve agrees to a request: by somebody else, for the very plan, before it is void.
func (k *Keeper) Approve(id, by, hash string) error {
	r, err := k.Request(id)
	switch {
	case err != nil:
		return err
	case by == "" || by == r.By:
		return no("%s has asked for it: somebody else must approve it", r.By)
	case r.ApprovedBy != "":
		return no("%s has approved it already", r.ApprovedBy)
	case r.Hash == "":
		return no("it needs no approval")
	case hash != r.Hash:
		return no("%s has asked for the plan %s, and this is %s: read the plan again", r.By, r.Hash, hash)
	}
	defer k.poke()
	return k.book.Add(Entry{At: k.o.Now(), Kind: Approved, Drill: r.Drill, Request: id, By: by, Hash: hash})
}

// Drop withdraws a request.
func (k *Keeper) Drop(id, by string) error {
	r, err := k.Request(id)
	if err != nil {
		return err
	}
	k.unwait(id)
	return k.book.Add(Entry{At: k.o.Now(), Kind: Dropped, Drill: r.Drill, Request: id, By: by})
}

// Request is an open request.
func (k *Keeper) Request(id string) (Request, error) {
	for _, r := range k.book.Requests() {
		if r.Request == id && !k.o.Now().After(r.Until) {
			return r, nil
		}
	}
	return Request{}, no("there is no such request any more: it was used, withdrawn, or is void by its age")
}

// approvedFor finds the approved request for a slot, or says why there is none.
func (k *Keeper) approvedFor(p *experiments.Planned, slot due.Slot) (*Request, string) {
	why := "its plan is not approved: nobody has asked for its approval"
	for _, r := range k.book.Requests() {
		switch {
		case r.Drill != p.Name || !r.Slot.Equal(slot.Shown()) || k.o.Now().After(r.Until):
		case r.ApprovedBy == "":
			why = "its plan is not approved: " + r.By + " has asked for it, and nobody else has approved it"
		default:
			return &r, ""
		}
	}
	return nil, why
}

// asked decides a request for a run as soon as may be.
func (k *Keeper) asked(ctx, alive context.Context, s *experiments.Schedule, r Request, now time.Time) error {
	p := s.Drill(r.Drill)
	switch {
	case p == nil:
		return k.book.Add(Entry{At: now, Kind: Unrun, Drill: r.Drill, Request: r.Request, By: r.By, What: string(due.Skipped), Why: "it is not in the schedule any more"})
	case now.After(r.Until):
		e := Entry{At: now, Kind: Unrun, Drill: r.Drill, Request: r.Request, By: r.By, What: string(due.Unapproved), Why: "the request of " + r.By + " was not approved in time"}
		if r.ApprovedBy != "" || p.Approval == "" {
			e.What, e.Why = string(due.Skipped), "the request of "+r.By+" could not be met in time"
		}
		if !r.Slot.IsZero() { // its slot has an entry of its own
			return k.book.Add(Entry{At: now, Kind: Dropped, Drill: r.Drill, Request: r.Request, By: "schedule"})
		}
		return k.unrun(e, p)
	case !r.Slot.IsZero() || p.Approval != "" && r.ApprovedBy == "":
		return nil
	}
	from := r.At
	if r.ApprovedBy != "" {
		from = r.ApprovedAt
	}
	slot := due.Slot{Drill: r.Drill, At: from}
	patient := *p // somebody waits for it: it is left out for nobody, until the request is void
	patient.Overlap, patient.Wait = experiments.OverlapQueue, r.Until.Sub(from)
	p = &patient
	verb, why, _ := k.decide(ctx, s, p, slot, now, true, &r)
	slot.At = time.Time{}
	if verb == due.Wait {
		slot.At = from
	}
	return k.act(alive, p, r.Request, slot, verb, why, &r, r.By)
}
