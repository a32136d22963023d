package lockcore

import "fmt"

// Describe says in words what a policy does, one sentence a line: the same that its YAML says.
func (p Policy) Describe() []string {
	out := []string{fmt.Sprintf("The lease is %s.", Seconds(p.TTL)), p.describeAcquire()}
	out = append(out, p.describeUnanswered()...)
	out = append(out, p.describeRenewal(), p.describeClass())
	if p.Drift > 0 || p.StopBudget > 0 {
		out = append(out, fmt.Sprintf("Each success is relied on for the lease less %s of clock drift; %s of that is kept for the work to stop.", Seconds(p.Drift), Seconds(p.StopBudget)))
	}
	out = append(out, p.describeRelease())
	if p.Loop != nil {
		out = append(out, p.describeLoop())
	}
	return out
}

func (p Policy) describeAcquire() string {
	a := p.Acquire
	if a.Mode == AcquireTry {
		return fmt.Sprintf("It is asked for once, for at most %s.", Seconds(a.Timeout))
	}
	pause := "every " + Seconds(a.Backoff.Every)
	switch a.Backoff.Mode {
	case BackoffWake:
		return fmt.Sprintf("Whoever finds it held stands in line, first come first served, and is told when the turn has come; else it is asked for every %s, and no later than the holder's lease ends, each try for at most %s; after %s the answer is busy.",
			Seconds(a.Backoff.Cap), Seconds(a.Timeout), Seconds(a.Budget))
	case BackoffDecorrelated:
		pause = fmt.Sprintf("after random pauses from %s to %s", Seconds(a.Backoff.Every), Seconds(a.Backoff.Cap))
	}
	return fmt.Sprintf("It is asked for %s, and no later than the holder's lease ends, each try for at most %s; after %s the answer is busy.",
		pause, Seconds(a.Timeout), Seconds(a.Budget))
}

// describeUnanswered says what differs from an acquire that gives back what it may have got, and goes on for its whole budget.
func (p Policy) describeUnanswered() (out []string) {
	a := p.Acquire
	if a.Undo == UndoNone {
		out = append(out, fmt.Sprintf("An acquire without an answer is not given back: its key may stay taken for %s.", Seconds(p.TTL)))
	}
	if a.Mode == AcquireWait && a.OnError == OnErrorFail {
		out = append(out, "A try that fails is the answer, and the wait is over.")
	}
	if a.Mode == AcquireWait && a.LastTry == LastTryWhole {
		out = append(out, fmt.Sprintf("The last try has its whole %s, so that the answer may take up to %s.", Seconds(a.Timeout), Seconds(a.Budget+a.Timeout)))
	}
	return out
}

func (p Policy) describeRenewal() string {
	if p.RenewEvery == 0 {
		return "It is never renewed."
	}
	jitter := ""
	if p.RenewJitter > 0 {
		jitter = fmt.Sprintf(", give or take %s%%", number(p.RenewJitter*100))
	}
	return fmt.Sprintf("It is renewed every %s%s, each call for at most %s.", Seconds(p.RenewEvery), jitter, Seconds(p.OpTimeout))
}

func (p Policy) describeClass() string {
	count := fmt.Sprintf("%d failed renewals in a row", p.MaxFailures)
	deadline := "when its validity ends"
	if p.StopBudget > 0 {
		deadline = Seconds(p.StopBudget) + " before its validity ends"
	}
	switch p.Class {
	case Critical:
		return fmt.Sprintf("Class critical: given up after %s, or %s, or at once when the store says that the key is not ours.", count, deadline)
	case Standard:
		return fmt.Sprintf("Class standard: given up %s, or at once when the store says that the key is not ours.", deadline)
	case Continuity:
		return "Class continuity: never given up; past its validity the work goes on, and says that it is unowned."
	case LegacyCount:
		return fmt.Sprintf("Class legacy_count: given up after %s, whatever their kind, and by nothing else.", count)
	}
	if p.RenewEvery == 0 {
		return "Class legacy_warn: never given up."
	}
	return "Class legacy_warn: never given up; failed renewals are counted and the work goes on."
}

func (p Policy) describeRelease() string {
	r := p.Release
	after := " After it was given up it is left to its lease."
	switch {
	case p.Class == LegacyWarn || p.Class == Continuity:
		after = ""
	case r.AfterAbandon == AfterAbandonStopped:
		after = " After it was given up it is released once the work has stopped."
	}
	switch r.Mode {
	case ReleaseNone:
		return "It is never released: the key stays until its lease ends."
	case ReleaseSingle:
		return fmt.Sprintf("It is released with one call of at most %s; if that fails, the key stays until its lease ends.%s", Seconds(r.Timeout), after)
	}
	next := ""
	if r.Retry == RetryAtOnce {
		next = ", the next one right after the last has failed"
	}
	return fmt.Sprintf("It is released with at most %d calls of at most %s each, each on a fresh context%s; then the key is left to its lease.%s", r.Attempts, Seconds(r.Timeout), next, after)
}

func (p Policy) describeLoop() string {
	what := "the key is left to its lease"
	switch {
	case p.Loop.Mode == LoopExplicit:
		what = "the key is released"
	case p.Loop.Mode == LoopRenewed:
		what = "the key is kept and renewed until its holder dies or loses it"
	case p.RenewEvery > 0:
		what += ", and renewed only while a tick runs"
	}
	if p.Loop.Effect == EffectAfter {
		what += ". A tick writes its effect when its work is done"
	}
	return fmt.Sprintf("A leader loop: every %s whoever gets the key does a tick of about %s; afterwards %s.", Seconds(p.Loop.Poll), Seconds(p.Loop.Tick), what)
}
