package history

// What stands in a line, in its order: the JSON tags of the types once more, for the walk of the codec. A test holds the two together.

func (e *Event) walk(k *codec) {
	num(k, `"n":`, &e.N, need)
	text(k, `"kind":`, &e.Kind, need)
	e.Span.walk(k)
	num(k, `"at":`, &e.At, need)
	text(k, `"source":`, &e.Source, need)
	text(k, `"clock":`, &e.Clock, want)
	text(k, `"lock":`, &e.Lock, want)
	text(k, `"key":`, &e.Key, want)
	text(k, `"epoch":`, &e.Epoch, want)
	num(k, `"fence":`, &e.Fence, want)
	text(k, `"op":`, &e.Op, want)
	text(k, `"outcome":`, &e.Outcome, want)
	num(k, `"seq":`, &e.Seq, want)

	rare(k, `"environment":`, &e.Environment, e.Environment != nil)
	rare(k, `"calibration":`, &e.Calibration, e.Calibration != nil)
	rare(k, `"prediction":`, &e.Prediction, e.Prediction != nil)
	rare(k, `"phase":`, &e.Phase, e.Phase != nil)
	rare(k, `"note":`, &e.Note, e.Note != nil)
	rare(k, `"incarnation":`, &e.Incarnation, e.Incarnation != nil)
	rare(k, `"replica":`, &e.Replica, e.Replica != nil)
	body(k, `"job":`, &e.Job, func(b *slots) *Job { return &b.job }, (*Job).walk)
	body(k, `"call":`, &e.Call, func(b *slots) *Call { return &b.call }, (*Call).walk)
	body(k, `"abandon":`, &e.Abandon, nil, (*Abandon).walk)
	body(k, `"work":`, &e.Work, func(b *slots) *Work { return &b.work }, (*Work).walk)
	body(k, `"write":`, &e.Write, func(b *slots) *Write { return &b.write }, (*Write).walk)
	body(k, `"entry":`, &e.Entry, func(b *slots) *Entry { return &b.entry }, (*Entry).walk)
	body(k, `"look":`, &e.Look, func(b *slots) *Look { return &b.look }, (*Look).walk)
	body(k, `"coverage":`, &e.Coverage, func(b *slots) *Coverage { return &b.coverage }, (*Coverage).walk)
	rare(k, `"sample":`, &e.Sample, e.Sample != nil)
	body(k, `"fault":`, &e.Fault, nil, (*Fault).walk)
	body(k, `"match":`, &e.Match, nil, (*Match).walk)
	rare(k, `"object":`, &e.Object, e.Object != nil)
	rare(k, `"late":`, &e.Late, e.Late != nil)
	rare(k, `"unread":`, &e.Unread, e.Unread != nil)
	rare(k, `"belief":`, &e.Belief, e.Belief != nil)
}

func (s *Span) walk(k *codec) {
	num(k, `"from":`, &s.From, need)
	num(k, `"to":`, &s.To, need)
}

func (j *Job) walk(k *codec) {
	text(k, `"id":`, &j.ID, need)
	text(k, `"class":`, &j.Class, want)
	num(k, `"hold":`, &j.Hold, want)
	text(k, `"to":`, &j.To, want)
	text(k, `"ack":`, &j.Ack, want)
	body(k, `"due":`, &j.Due, func(b *slots) *Span { return &b.jobDue }, (*Span).walk)
}

func (c *Call) walk(k *codec) {
	num(k, `"ttl":`, &c.TTL, want)
	text(k, `"result":`, &c.Result, want)
	text(k, `"holder":`, &c.Holder, want)
	num(k, `"pttl":`, &c.PTTL, want)
	text(k, `"err":`, &c.Err, want)
	num(k, `"attempt":`, &c.Attempt, want)
	text(k, `"fault":`, &c.Fault, want)
	text(k, `"why":`, &c.Why, want)
	flag(k, `"demand":`, &c.Demand, want)
	num(k, `"answered":`, &c.Answered, want)
	text(k, `"id":`, &c.ID, want)
}

func (a *Abandon) walk(k *codec) {
	text(k, `"reason":`, &a.Reason, need)
	num(k, `"failures":`, &a.Failures, want)
}

func (w *Work) walk(k *codec) {
	text(k, `"subject":`, &w.Subject, need)
	text(k, `"why":`, &w.Why, want)
	num(k, `"valid":`, &w.Valid, want)
	flag(k, `"has_valid":`, &w.HasValid, want)
}

func (w *Write) walk(k *codec) {
	text(k, `"subject":`, &w.Subject, need)
	text(k, `"state":`, &w.State, need)
	flag(k, `"terminal":`, &w.Terminal, want)
	flag(k, `"accepted":`, &w.Accepted, want)
	text(k, `"reason":`, &w.Reason, want)
	text(k, `"current":`, &w.Current, want)
	text(k, `"err":`, &w.Err, want)
}

func (e *Entry) walk(k *codec) {
	num(k, `"pos":`, &e.Pos, need)
	text(k, `"subject":`, &e.Subject, need)
	flag(k, `"loop":`, &e.Loop, want)
	text(k, `"state":`, &e.State, need)
	flag(k, `"terminal":`, &e.Terminal, want)
	flag(k, `"accepted":`, &e.Accepted, need)
	text(k, `"reason":`, &e.Reason, want)
	text(k, `"named":`, &e.Named, want)
	text(k, `"writer":`, &e.Writer, want)
	flag(k, `"foreign":`, &e.Foreign, want)
	flag(k, `"unordered":`, &e.Unordered, want)
	num(k, `"read":`, &e.Read, want)
	body(k, `"due":`, &e.Due, func(b *slots) *Span { return &b.entryDue }, (*Span).walk)
	text(k, `"trace":`, &e.Trace, want)
}

func (l *Look) walk(k *codec) {
	flag(k, `"present":`, &l.Present, need)
	num(k, `"pttl":`, &l.PTTL, need)
	num(k, `"server":`, &l.Server, need)
	body(k, `"prev":`, &l.Prev, func(b *slots) *Span { return &b.prev }, (*Span).walk)
	num(k, `"prev_pttl":`, &l.PrevPTTL, want)
	flag(k, `"final":`, &l.Final, want)
	text(k, `"named":`, &l.Named, want)
	text(k, `"holder":`, &l.Holder, want)
	text(k, `"by":`, &l.By, want)
	text(k, `"disputed":`, &l.Disputed, want)
	num(k, `"slack":`, &l.Slack, want)
	flag(k, `"released":`, &l.Released, want)
	flag(k, `"direct":`, &l.Direct, want)
	flag(k, `"hash":`, &l.Hash, want)
}

func (c *Coverage) walk(k *codec) {
	text(k, `"probe":`, &c.Probe, need)
	num(k, `"samples":`, &c.Samples, want)
	num(k, `"largest":`, &c.Largest, want)
	text(k, `"why":`, &c.Why, want)
	flag(k, `"lost":`, &c.Lost, want)
	flag(k, `"failed":`, &c.Failed, want)
	flag(k, `"partial":`, &c.Partial, want)
	flag(k, `"final":`, &c.Final, want)
	rare(k, `"observer":`, &c.Observer, c.Observer != nil)
}

func (f *Fault) walk(k *codec) {
	text(k, `"id":`, &f.ID, need)
	num(k, `"shot":`, &f.Shot, need)
	text(k, `"kind":`, &f.Kind, need)
	text(k, `"form":`, &f.Form, want)
	text(k, `"victim":`, &f.Victim, want)
	rare(k, `"victims":`, &f.Victims, len(f.Victims) > 0)
	num(k, `"anchor":`, &f.Anchor, want)
	text(k, `"timing":`, &f.Timing, want)
	text(k, `"why":`, &f.Why, want)
	text(k, `"detail":`, &f.Detail, want)
	num(k, `"declared":`, &f.Declared, want)
	num(k, `"want":`, &f.Want, want)
	num(k, `"hits":`, &f.Hits, want)
	text(k, `"configured":`, &f.Configured, want)
	text(k, `"via":`, &f.Via, want)
	num(k, `"baseline":`, &f.Baseline, want)
	num(k, `"expected":`, &f.Expected, want)
	num(k, `"observed":`, &f.Observed, want)
	rare(k, `"death":`, &f.Death, f.Death != nil)
}

func (m *Match) walk(k *codec) {
	text(k, `"pattern":`, &m.Pattern, need)
	text(k, `"text":`, &m.Text, need)
	text(k, `"file":`, &m.File, want)
}
