package explore

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
)

// Where the mutants show, and by which promise they break. An exploration that finds none of them would say nothing about the
// healthy lock.
var animals = map[string]struct {
	w      World
	breaks string
	not    string // why it breaks none of these promises
}{
	"warn-and-continue":  {w: World{Policy: seldom, OwnsWork: true}, breaks: WorkIsOwned},
	"count-fence":        {w: World{Policy: counting, OwnsWork: true}, breaks: WorkIsOwned},
	"no-renewal":         {w: World{Policy: seldom, OwnsWork: true}, breaks: WorkIsOwned},
	"endless-release":    {not: "no end of a release is wrong by itself: what never ends, no finite number of steps shows"},
	"early-validity":     {w: World{Policy: seldom}, breaks: HeldIsOwned},
	"reply-validity":     {w: World{Policy: exact}, breaks: HeldIsOwned},
	"late-timers":        {w: World{Policy: policy(lockcore.Standard), Pauses: true}, breaks: HeldIsOwned},
	"counts-not-owned":   {w: World{Policy: tolerant, Delete: true}, breaks: LossIsHeeded},
	"forgetful-count":    {w: World{Policy: counting}, breaks: WorkIsOwned},
	"orphans":            {w: World{Policy: policy(lockcore.Standard)}, breaks: Undone},
	"cancelled-clean-up": {w: World{Policy: policy(lockcore.Standard), GiveUps: true}, breaks: ReleaseIsTried},
	"release-first":      {w: World{Policy: policy(lockcore.Standard)}, breaks: WorkStopsFirst},
	"watchdog":           {w: World{Policy: policy(lockcore.Standard)}, breaks: NoLateRenewal},
	"wall-clock-expiry":  {not: "no wall clock is set here"},
	"blind-release":      {w: World{Policy: policy(lockcore.Standard)}, breaks: NoForeignRelease},
	"blind-renew":        {w: World{Policy: policy(lockcore.Standard)}, breaks: NoForeignRenewal},
	"setnx-then-expire":  {w: World{Policy: policy(lockcore.Standard)}, breaks: LeaseEnds},
	"fence-counter":      {w: World{Policy: policy(lockcore.Standard), Flush: true}, breaks: FencesGrow},
	"re-creates":         {w: World{Policy: policy(lockcore.Standard)}, breaks: NoForeignRenewal},
	"unguarded-release":  {w: World{Policy: policy(lockcore.Standard)}, breaks: NoForeignRelease},
	"one-token":          {w: World{Policy: policy(lockcore.Standard)}, breaks: FencesGrow},
	"unfenced-storage":   {w: World{Policy: policy(lockcore.Standard), Pauses: true}, breaks: NoStaleEffect},
	"late-fence":         {w: World{Policy: policy(lockcore.Standard), Pauses: true}, breaks: OwnFence},
	"fake-release":       {w: World{Policy: policy(lockcore.Standard)}, breaks: ReleasedIsFree},
	"fake-keep":          {w: World{Policy: policy(lockcore.Standard)}, breaks: HeldIsOwned},
	"ghost-holder":       {w: World{Policy: policy(lockcore.Standard)}, breaks: FencesGrow},
	"no-begin":           {w: World{Policy: policy(lockcore.Standard)}, breaks: OneTerminal},
	"nervous":            {not: "it gives up early, and safely"},
	"one-release":        {not: "a key that is left to its TTL breaks none of these promises"},
	"impatient":          {not: "it waits less, and safely"},
	"dozing-waiter":      {not: "it asks seldom, and safely"},
	"long-lease":         {not: "its lease ends before its key does"},
	"hoards-at-the-end":  {w: World{Policy: policy(lockcore.Standard)}, breaks: ReleasedIsFree},
	"shared-token":       {w: World{Policy: policy(lockcore.Standard)}, breaks: FencesGrow},
	"sleepy-leader":      {not: "what a holder leaves undone breaks none of these promises"},
	"slow":               {not: "it is renewed for as long as it works"},
	"no-look":            {not: "its storage refuses what comes again"},
	"wrong-token":        {not: "it keeps to the token that it has set: only what it announces is another"},
	"denied-grant":       {not: "what the store grants and refuses in one answer, no order of events shows: the looks do"},
}

var (
	seldom   = adjusted(policy(lockcore.Standard), func(p *lockcore.Policy) { p.RenewEvery = 2 * step })
	exact    = adjusted(policy(lockcore.Standard), func(p *lockcore.Policy) { p.Drift = 0 })
	tolerant = adjusted(policy(lockcore.Critical), func(p *lockcore.Policy) { p.MaxFailures = 3 })
	counting = adjusted(policy(lockcore.LegacyCount), func(p *lockcore.Policy) { p.Drift, p.MaxFailures = 0, 2 })
)

func TestTheMutantsAreFound(t *testing.T) {
	for _, a := range mutants.All() {
		t.Run(a.Name, func(t *testing.T) {
			show, known := animals[a.Name]
			switch {
			case a.Tell != nil, a.Edit != nil:
				t.Log("its lock is right, and what it says of it is not")
				return
			case !known:
				t.Fatal("where does it show? Give it a row in animals, or say there why it has none")
			case show.not != "":
				t.Log(show.not)
				return
			}
			w := show.w
			w.Contenders, w.Variant, w.NoBegin = 2, a.Variant, a.Work.NoBegin
			if a.Policy != nil {
				a.Policy(&w.Policy)
			}
			found(t, w, show.breaks)
		})
	}
	for name := range animals {
		if _, ok := mutants.Find(name); !ok {
			t.Errorf("there is no mutant %s", name)
		}
	}
}

// What promises of the core no mutant breaks: each can be broken.
func TestOtherMistakesAreFound(t *testing.T) {
	around := func(f func(m *lockcore.Machine) lockcore.Attempt) lockcore.Variant {
		return lockcore.Variant{Attempt: func(p lockcore.Policy) lockcore.Attempt { return f(lockcore.NewMachine(p)) }}
	}
	never := adjusted(policy(lockcore.Standard), func(p *lockcore.Policy) { p.RenewEvery = 0 })
	waits := waiting()
	for name, c := range map[string]struct {
		w      World
		breaks string
	}{
		"no drift taken off": {World{Policy: policy(lockcore.Standard), Drift: true, Variant: lockcore.Variant{Attempt: func(p lockcore.Policy) lockcore.Attempt {
			p.Drift = 0
			return lockcore.NewMachine(p)
		}}}, HeldIsOwned},
		"no timer at the validity end":           {World{Policy: never, Variant: around(func(m *lockcore.Machine) lockcore.Attempt { return untimed{m} })}, WorkIsOwned},
		"a late reply is taken for the next one": {World{Policy: policy(lockcore.Standard), Ignores: true, Variant: around(func(m *lockcore.Machine) lockcore.Attempt { return &credulous{Machine: m} })}, StaleIsIgnored},
		"ticks are counted":                      {World{Policy: policy(lockcore.Standard), Ignores: true, Variant: around(func(m *lockcore.Machine) lockcore.Attempt { return &counts{Machine: m} })}, EarlyIsIgnored},
		"a caller is told late":                  {World{Policy: waits, Variant: around(func(m *lockcore.Machine) lockcore.Attempt { return &slow{Machine: m} })}, ToldInTime},
	} {
		t.Run(name, func(t *testing.T) {
			c.w.Contenders = 2
			found(t, c.w, c.breaks)
		})
	}
}

// found explores until the promise is broken, and holds the healthy lock, that far, to it.
func found(t *testing.T, w World, breaks string) {
	t.Helper()
	f := report(t, w, 18, breaks)
	w.Variant, w.NoBegin = lockcore.Variant{}, false
	if !w.OwnsWork { // a policy that is wrong has no healthy lock
		report(t, w, f.Depth, "")
	}
}

type untimed struct{ *lockcore.Machine }

func (m untimed) Next() (at time.Duration, ok bool) {
	if m.State() == lockcore.Holding {
		return 0, false
	}
	return m.Machine.Next()
}

type credulous struct {
	*lockcore.Machine
	call int
}

func (m *credulous) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	if in.Kind == lockcore.Reply {
		in.Call = m.call
	}
	from := len(out)
	out = m.Machine.Step(now, in, out)
	for _, a := range out[from:] {
		if a.Kind == lockcore.ActDo {
			m.call = a.Call.ID
		}
	}
	return out
}

type counts struct {
	*lockcore.Machine
	ticks int
}

func (m *counts) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	m.ticks++
	return m.Machine.Step(now, in, out)
}

// slow keeps a refusal to itself until it is done.
type slow struct {
	*lockcore.Machine
	refusal []lockcore.Action
}

func (m *slow) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	for _, a := range m.Machine.Step(now, in, nil) {
		switch a.Kind {
		case lockcore.ActRefuse:
			m.refusal = append(m.refusal, a)
			continue
		case lockcore.ActDone:
			out = append(out, m.refusal...)
		}
		out = append(out, a)
	}
	return out
}
