// Package advicetest holds the advice of a judgement against the file that was judged: nobody is told to write what stands there
// already. Recorded runs and rehearsals are held to the same list, which knows nothing of how advice is chosen.
package advicetest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// said is a phrase of advice, and what a file has that makes it idle: told of a lock, "" = of the whole run.
type said struct {
	phrase string
	has    func(e *experiments.Experiment, lock string) string // "" = the file does not have it
}

var count = regexp.MustCompile(`(?:repeat: \{count: |at_most to )(\d+)`)

// phrases are those that name a value, a field or a length of the file.
var phrases = []said{
	{"allow_overlap", func(e *experiments.Experiment, _ string) string {
		if len(e.AllowOverlap) == 0 {
			return "no allow_overlap"
		}
		return ""
	}},
	{"Let the fault outlast", anyFault(func(e *experiments.Experiment, f *experiments.Fault, lock string) bool {
		return f.Traits().Class == verdict.ClassPause && outlasts(e, f, lock)
	})},
	{"Add a fault that outlasts", anyFault(func(e *experiments.Experiment, f *experiments.Fault, lock string) bool {
		return f.Traits().Fails == lockcore.OpRenew && outlasts(e, f, lock)
	})},
	{"phase: after_grant", moment(fault.AfterGrant)},
	{"on: acquired", moment(fault.Acquired)},
	{"delete_key", anyFault(func(_ *experiments.Experiment, f *experiments.Fault, _ string) bool { return f.Traits().AtKey })},
	{"fenced: true", work(func(w *experiments.Work) bool { return w.Fenced })},
	{"look: true", work(func(w *experiments.Work) bool { return w.Look })},
	{"second terminal state (strict: true)", work(func(w *experiments.Work) bool { return w.Strict })},
	{"Declare `work`", work(func(*experiments.Work) bool { return true })},
	{"With class standard", class(lockcore.Standard)},
	{"policy with a deadline", class(lockcore.Standard, lockcore.Critical)},
}

// Idle is all advice of j that names what the file has, and how many pieces of advice there were.
func Idle(e *experiments.Experiment, j *verdict.Judgement) (idle []string, told int) {
	tell := func(lock, next string) {
		if next == "" {
			return
		}
		told++
		if m := count.FindStringSubmatch(next); m != nil {
			if want, _ := strconv.Atoi(m[1]); want <= declared(e, lock) {
				idle = append(idle, fmt.Sprintf("%q, and the file declares %d", next, declared(e, lock)))
			}
		}
		for _, p := range phrases {
			if !strings.Contains(next, p.phrase) {
				continue
			}
			if has := p.has(e, lock); has != "" {
				idle = append(idle, fmt.Sprintf("lock %q: %q, and the file has %s", lock, next, has))
			}
		}
	}
	for _, m := range j.Missing {
		tell("", m.Next)
	}
	for _, r := range j.Rows() {
		tell(r.Lock, r.Next)
		for _, m := range r.Missing {
			tell(r.Lock, m.Next)
		}
	}
	return idle, told
}

// of are the faults that strike the lock.
func of(e *experiments.Experiment, lock string) (all []*experiments.Fault) {
	for i := range e.Faults {
		f := &e.Faults[i]
		if at := f.Traits().Lock; lock == "" || f.Lock() == lock || f.Lock() == "" && (at == "" || at == lock) {
			all = append(all, f)
		}
	}
	return all
}

// declared is how many shots one fault at the lock has at most.
func declared(e *experiments.Experiment, lock string) (n int) {
	for _, f := range of(e, lock) {
		n = max(n, f.Repeat.Count)
	}
	return n
}

func outlasts(e *experiments.Experiment, f *experiments.Fault, lock string) bool {
	l := e.Lock(lock)
	return l != nil && l.Policy.TTL > 0 && f.For > l.Policy.TTL
}

// moment is idle where every fault of the file has it: a row also tells what another lock's fault lacked.
func moment(is fault.Phase) func(*experiments.Experiment, string) string {
	return func(e *experiments.Experiment, _ string) string {
		if len(e.Faults) == 0 || slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool { return f.Moment() != is }) {
			return ""
		}
		return "it in " + e.Faults[0].ID
	}
}

// anyFault is idle where one fault at the lock is so.
func anyFault(is func(*experiments.Experiment, *experiments.Fault, string) bool) func(*experiments.Experiment, string) string {
	return func(e *experiments.Experiment, lock string) string {
		for _, f := range of(e, lock) {
			if is(e, f, lock) {
				return "it in " + f.ID
			}
		}
		return ""
	}
}

// work is idle where the lock's work is so.
func work(is func(*experiments.Work) bool) func(*experiments.Experiment, string) string {
	return func(e *experiments.Experiment, lock string) string {
		if w := e.WorkUnder(lock); w != nil && is(w) {
			return "it in its work"
		}
		return ""
	}
}

// class is idle where the lock's policy is of one of these.
func class(of ...lockcore.Class) func(*experiments.Experiment, string) string {
	return func(e *experiments.Experiment, lock string) string {
		if l := e.Lock(lock); l != nil && slices.Contains(of, l.Policy.Class) {
			return "class " + string(l.Policy.Class)
		}
		return ""
	}
}
