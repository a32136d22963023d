package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// write is an operation on the ledger.
func (l *Linter) write(source, op string) *wrote {
	w := l.wrote[[2]string{source, op}]
	if w == nil {
		w = &wrote{}
		l.wrote[[2]string{source, op}] = w
	}
	return w
}

// what is the verb of an invoke or a return.
func what(e *history.Event) string {
	verb, _, _ := strings.Cut(string(e.Kind), ".")
	return verb
}

func (l *Linter) invoke(e *history.Event) {
	id := opID{e.Source, e.Op, what(e)}
	if l.used[id] && e.Write == nil { // an effect may be asked for again
		l.find("op_reused", e.Source, "op "+e.Op+" is used for two calls", e.N)
	}
	l.used[id] = true
	l.open[id] = &open{n: e.N, from: e.From, at: e.At, lock: e.Lock}
	if e.Write != nil {
		w, effect := l.write(e.Source, e.Op), e.Write.Subject+" "+e.Write.State
		if w.effect != "" && w.effect != effect {
			l.find("op_of_two_effects", e.Source, "operation "+e.Op+" is "+w.effect+" and then "+effect+": the second has no effect", e.N)
		}
		w.effect = effect
		w.asked++
		return
	}
	x := l.epoch(e)
	switch e.Kind {
	case history.AcquireInvoke:
		if x.invoked != 0 {
			l.find("token_reused", e.Source, "epoch "+e.Epoch+" is asked for twice", x.invoked, e.N)
		}
		if at, known := l.seen[e.Epoch]; known && x.invoked == 0 && l.life(e.Source).early == nil && e.At-at > int64(mostUnderWay) && !l.wasLate(at, e.At) {
			l.life(e.Source).early = &Finding{"announced_late", e.Source, "the key carried epoch " + e.Epoch + " " + time.Duration(e.At-at).Round(time.Millisecond).String() + " before its acquire was announced", []int64{e.N}}
		}
		x.invoked, x.source = e.N, e.Source
		if l.policy(e.Lock).Loop != nil {
			w := l.life(e.Source)
			w.asks[e.Lock] = append(w.asks[e.Lock], e.From)
		}
	case history.ReleaseInvoke:
		if x.entered != 0 && x.exited == 0 {
			l.find("released_at_work", e.Source, "a release is sent before the work has stopped", x.entered, e.N)
		}
		x.releasing = true
	case history.UndoInvoke:
		x.releasing = true
	case history.RenewInvoke:
		if x.releasing {
			l.find("renewed_after_release", e.Source, "a renewal of epoch "+e.Epoch+" is sent after its release", e.N)
		}
		x.renewed = true
	}
}

func (l *Linter) returned(e *history.Event) {
	verb := what(e)
	id := opID{e.Source, e.Op, verb}
	o := l.open[id]
	if o == nil {
		l.find("return_without_invoke", e.Source, "a "+string(e.Kind)+" has no invoke before it", e.N)
		return
	}
	delete(l.open, id)
	if o.from != e.From {
		l.find("return_from", e.Source, "from of a return is not the stamp of its invoke", o.n, e.N)
	}
	l.took(e, verb)
	l.life(e.Source).slow.take(o, e)
	if e.Write != nil && e.Write.Reason == history.ReasonReplay {
		if w := l.write(e.Source, e.Op); w.asked == 1 {
			w.replayed = e.N
		}
	}
	switch {
	case e.Kind == history.AcquireReturn:
		l.answered(e)
	case e.Kind == history.RenewReturn && e.Outcome == history.OK:
		x, k := l.epoch(e), l.keys[e.Key]
		if k != nil && !l.ids && k.epoch != "" && k.epoch != e.Epoch && x.granted != 0 && k.other.From > x.grantedAt && k.other.To < e.From {
			l.find("renewed_of_another", e.Source, "a renewal of epoch "+e.Epoch+" is answered ok, and the key had carried "+k.epoch+" before it was sent", e.N)
		}
	case e.Kind == history.RenewReturn && (e.Call.Result == history.ResultAbsent || e.Call.Result == history.ResultOther):
		p, x := l.policy(e.Lock), l.epoch(e)
		if !x.observed && x.exited == 0 && (p.Class == lockcore.Standard || p.Class == lockcore.Critical) {
			x.lost, x.lostAt = e.N, e.To
		}
	case e.Kind == history.ReleaseReturn && e.Outcome == history.OK:
		l.epoch(e).freed = e.At
	case e.Kind == history.WriteReturn && e.Write.State == history.StateBegin:
		l.epoch(e).begun = l.epoch(e).begun || e.Outcome == history.OK
	case e.Kind == history.WriteReturn && e.Write.Accepted && e.Write.Terminal && l.finished[e.Write.Subject] == "":
		l.finished[e.Write.Subject] = e.Epoch
		l.life(e.Source).unanswered[e.Write.Subject] = e.N
	}
}

func (s *slowCalls) take(o *open, e *history.Event) {
	took := time.Duration(e.To - e.From)
	if s.all++; took >= leastDelay {
		s.long++
	}
	if took < slowCall || e.Clock != history.ClockShared {
		return
	}
	s.n++
	if e.At-e.To >= int64(slowCall) {
		s.ended++
	}
	if o.at >= e.To {
		if s.announced++; s.announced == 1 {
			s.first = o.n
		}
	}
}

// took holds the duration of a call against its limit.
func (l *Linter) took(e *history.Event, verb string) {
	p := l.policy(e.Lock)
	took := time.Duration(e.To - e.From)
	limit := map[string]time.Duration{"acquire": p.Acquire.Timeout, "renew": p.OpTimeout, "release": p.Release.Timeout}[verb]
	heldBack := len(l.withheld) > 0 || e.From <= l.kept // a dial that nobody answers is surely not sent: here the way was open
	switch {
	case limit == 0:
	case e.Outcome == history.Fail && e.Call.Result == history.ResultError && e.Call.Fault == "" && took >= limit*9/10 && heldBack:
		l.find("timeout_is_fail", e.Source, fmt.Sprintf("a call of %s that had %s says fail, where nobody can know", took.Round(time.Millisecond), limit), e.N)
	case took > limit+p.TTL/4 && l.life(e.Source).ran(e.From+int64(limit), e.To-int64(p.TTL)/4):
		if x := l.life(e.Source); x.overran == nil {
			x.overran = &Finding{"limit_ignored", e.Source, fmt.Sprintf("a call took %s, its limit is %s", took.Round(time.Millisecond), limit), []int64{e.N}}
		}
	}
}

// answered takes the answer to an acquire.
func (l *Linter) answered(e *history.Event) {
	switch {
	case e.Outcome == history.OK:
		l.epoch(e).granted, l.epoch(e).grantedAt = e.N, e.To
		l.ids = l.ids || e.Call.ID != ""
		if e.Fence <= 0 && !l.locks[e.Lock].Unfenced {
			l.find("no_fence", e.Source, "a grant names no fence", e.N)
		}
	case e.Call.Holder != "" && !l.touched && !l.ids && l.epochs[e.Call.Holder] == nil && l.seen[e.Call.Holder] == 0:
		l.find("holder_unknown", e.Source, "a refusal names the holder "+e.Call.Holder+", which nobody announced and no look has shown", e.N)
	}
}

func (l *Linter) entry(e *history.Event) {
	if e.Entry.Foreign || e.Epoch == "" {
		return
	}
	l.write(e.Entry.Writer, e.Op).entered = true
	x := l.epochs[e.Epoch]
	if x == nil || x.invoked == 0 { // its line may be under way
		l.pending = append(l.pending, pendingEffect{e.Epoch, e.Entry.Writer, e.N})
		return
	}
	if e.Entry.State == history.StateBegin && e.Entry.Accepted && e.Entry.Reason == "" && e.Entry.Loop {
		if x.begins++; x.begins > 1 {
			l.find("begun_twice", e.Entry.Writer, "epoch "+e.Epoch+" of a loop writes begin twice", e.N)
		}
	}
	if e.Entry.State == history.StateTick && e.Entry.Accepted {
		w := l.life(e.Entry.Writer)
		w.ticks[e.Lock] = append(w.ticks[e.Lock], e.From)
	}
	l.again(e, x)
	if x.exited != 0 && e.From > x.exitTo+int64(l.policy(e.Lock).TTL) {
		l.find("effect_after_exit", e.Entry.Writer, "an effect was not there yet long after the work's exit", x.exited, e.N)
	}
}

// again takes what an epoch writes of a job that was finished when it began.
func (l *Linter) again(e *history.Event, x *epoch) {
	job := e.Entry.Subject
	switch {
	case e.Entry.Loop || !e.Entry.Accepted || e.Entry.Reason != "":
	case e.Entry.State == history.StateBegin && l.done[job]:
		x.again = e.N
	case e.Entry.Terminal && x.again != 0 && x.begun && !l.locks[e.Lock].NoLook:
		l.find("done_again", e.Entry.Writer, "job "+job+" was finished when its begin was written, and it did it again", x.again, e.N)
	case e.Entry.Terminal:
		l.done[job] = true
	}
}

func (l *Linter) look(e *history.Event) {
	k := l.keys[e.Key]
	if k == nil {
		k = &key{}
		l.keys[e.Key] = k
	}
	if !e.Look.Present {
		k.epoch = ""
		return
	}
	if _, known := l.seen[e.Epoch]; !known {
		l.seen[e.Epoch] = e.To
	}
	x := l.epochs[e.Epoch]
	if x != nil && x.invoked != 0 && !x.renewed && !l.ids && k.epoch == e.Epoch && e.Look.PTTL > 0 && e.From+e.Look.PTTL > k.ends+int64(l.policy(e.Lock).TTL)/10 {
		l.silent[e.Epoch] = e.N // unless its line is under way
	}
	if k.epoch != e.Epoch {
		k.other = e.Span
	}
	k.epoch, k.ends = e.Epoch, e.To+e.Look.PTTL
}

func (l *Linter) exit(e *history.Event) {
	r := e.Replica
	if r.Bad > 0 {
		l.find("no_event", r.Incarnation, "a line is no event: "+r.BadLine, e.N)
	}
	var first *open
	for id, o := range l.open {
		if id.source == r.Incarnation {
			if delete(l.open, id); first == nil || o.n < first.n {
				first = o
			}
		}
	}
	l.ended(e)
	if !strings.HasPrefix(r.Exit, "exit status ") {
		return // a signal ended it
	}
	if r.Exit != "exit status 0" {
		switch {
		case r.Exit == "exit status 137": // as if by SIGKILL
		case r.Wanted:
			l.find("exit_status", r.Incarnation, "it ended with "+r.Exit, e.N)
		case l.life(r.Incarnation).ready != 0:
			l.find("dies", r.Incarnation, "it ended by itself with "+r.Exit, e.N)
		}
		return
	}
	if first != nil {
		p := l.policy(first.lock)
		if longest := max(p.Acquire.Timeout, p.OpTimeout, p.Release.Timeout); time.Duration(e.From-first.from) > 2*longest {
			l.find("invoke_without_return", r.Incarnation, "a call was announced and never ended", first.n, e.N)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.epochs)) {
		x := l.epochs[name]
		if x.source == r.Incarnation && x.granted != 0 && !x.releasing && !x.skipped && !x.observed {
			l.find("kept_at_the_end", r.Incarnation, "it ended, and has neither given back nor left epoch "+name, x.granted, e.N)
		}
	}
}

// slowStart is how long a life without replica.ready must have lasted at least to be called one: the runner waits for 20 s, and counts
// from before it.
const slowStart = 19 * time.Second

// ended takes the end of a life by what it was asked and told.
func (l *Linter) ended(e *history.Event) {
	r, x := e.Replica, l.life(e.Replica.Incarnation)
	lived := time.Duration(e.To - x.started.To)
	asked, atEnd := l.asked[r.Incarnation], l.final != 0 && r.Wanted
	switch {
	case x.started.To == 0: // not started, so nothing that it did
	case x.ready == 0 && !r.Wanted && asked == 0:
		l.find("not_ready", r.Incarnation, "it ended with "+r.Exit+" before it was ready; the commands had fields that it cannot know", e.N)
	case x.ready == 0 && lived > slowStart:
		l.find("not_ready", r.Incarnation, "it was not ready after "+lived.Round(time.Second).String(), e.N)
	case r.Exit != "signal: killed":
	case asked != 0:
		l.find("outstays", r.Incarnation, "it had to be killed when its grace after SIGTERM was over", asked, e.N)
	case atEnd:
		l.find("outstays", r.Incarnation, "it had to be killed at the end of the run, after stop or the end of its standard input", l.final, e.N)
	}
	if atEnd && l.stepped && r.Exit == "exit status 0" && x.ready != 0 && x.ready < l.final && !x.disarmed {
		l.find("arm_unanswered", r.Incarnation, "it was armed and disarmed when the work was over, and never said fault.reverted", e.N)
	}
}
