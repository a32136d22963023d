package history

// Kind names what an event is. docs/history-format.md says for each who writes it and what its bracket means.
type Kind string

const (
	RunEnvironment Kind = "run.environment"
	RunCalibration Kind = "run.calibration"
	RunPrediction  Kind = "run.prediction"
	RunPhase       Kind = "run.phase"
	RunAbort       Kind = "run.abort"
	RunCleanup     Kind = "run.cleanup"
	RunEnd         Kind = "run.end"

	StoreIncarnation Kind = "store.incarnation"

	ReplicaStart Kind = "replica.start"
	ReplicaReady Kind = "replica.ready"
	ReplicaExit  Kind = "replica.exit"

	JobOffer     Kind = "job.offer"
	JobRedeliver Kind = "job.redeliver"
	JobAck       Kind = "job.ack"

	WaitBegin Kind = "wait.begin" // the first refusal of a bounded wait
	WaitEnd   Kind = "wait.end"

	AcquireInvoke  Kind = "acquire.invoke"
	AcquireReturn  Kind = "acquire.return"
	RenewInvoke    Kind = "renew.invoke"
	RenewReturn    Kind = "renew.return"
	ReleaseInvoke  Kind = "release.invoke"
	ReleaseReturn  Kind = "release.return"
	UndoInvoke     Kind = "undo.invoke" // of an acquire whose outcome is unknown
	UndoReturn     Kind = "undo.return"
	ReleaseSkipped Kind = "release.skipped"

	AbandonKind   Kind = "abandon"
	FenceObserved Kind = "fence.observed"
	UnownedEnter  Kind = "unowned.enter"

	WorkEnter Kind = "work.enter"
	WorkExit  Kind = "work.exit"

	WriteInvoke Kind = "write.invoke"
	WriteReturn Kind = "write.return"
	LedgerEntry Kind = "ledger.entry"

	LookKind     Kind = "look"
	CoverageKind Kind = "coverage"
	GapKind      Kind = "gap"
	SampleKind   Kind = "sample"
	LogMatch     Kind = "logmatch" // a line of a pod's log that matches a named pattern
	ObjectKind   Kind = "object"   // a state of an object of the cluster

	MachineLate Kind = "machine.late" // since schema 2: a stretch in which the runner's machine was late

	UnreadKind Kind = "unread" // since schema 3: records that a source gave, and that could not be read
	BeliefKind Kind = "belief" // since schema 3: what an observed replica says of whether it leads

	FaultResolve   Kind = "fault.resolve"
	FaultIntent    Kind = "fault.intent"
	FaultApplied   Kind = "fault.applied"
	FaultHit       Kind = "fault.hit" // one operation that a burst made fail, from where it was done
	FaultConfirmed Kind = "fault.confirmed"
	FaultVoid      Kind = "fault.void"
	FaultReverted  Kind = "fault.reverted"
	FaultVerified  Kind = "fault.verified"
)

// rule is what Check demands of an event of a kind.
type rule struct {
	body    string // JSON name of the body that must be there; "" = none allowed
	key     bool   // lock and key must be named
	epoch   bool   // epoch must be named
	op      bool   // op must be named
	outcome bool   // outcome must be named; otherwise it must not be
	seq     bool   // it is always numbered within its Stream
	since   int    // the schema that brought the kind; 0 = the first
}

var rules = map[Kind]rule{
	RunEnvironment:   {body: "environment"},
	RunCalibration:   {body: "calibration"},
	RunPrediction:    {body: "prediction"},
	RunPhase:         {body: "phase"},
	RunAbort:         {body: "note"},
	RunCleanup:       {body: "note"},
	RunEnd:           {body: "note"},
	StoreIncarnation: {body: "incarnation", seq: true},
	ReplicaStart:     {body: "replica"},
	ReplicaReady:     {body: "replica"},
	ReplicaExit:      {body: "replica"},
	JobOffer:         {body: "job", key: true},
	JobRedeliver:     {body: "job", key: true},
	JobAck:           {body: "job", key: true},
	WaitBegin:        {body: "call", key: true, op: true},
	WaitEnd:          {body: "call", key: true, op: true, outcome: true},
	AcquireInvoke:    {body: "call", key: true, epoch: true, op: true},
	AcquireReturn:    {body: "call", key: true, epoch: true, op: true, outcome: true},
	RenewInvoke:      {body: "call", key: true, epoch: true, op: true},
	RenewReturn:      {body: "call", key: true, epoch: true, op: true, outcome: true},
	ReleaseInvoke:    {body: "call", key: true, epoch: true, op: true},
	ReleaseReturn:    {body: "call", key: true, epoch: true, op: true, outcome: true},
	UndoInvoke:       {body: "call", key: true, epoch: true, op: true},
	UndoReturn:       {body: "call", key: true, epoch: true, op: true, outcome: true},
	ReleaseSkipped:   {body: "call", key: true, epoch: true},
	AbandonKind:      {body: "abandon", key: true, epoch: true},
	FenceObserved:    {body: "abandon", key: true, epoch: true},
	UnownedEnter:     {body: "abandon", key: true, epoch: true},
	WorkEnter:        {body: "work", key: true, epoch: true, op: true},
	WorkExit:         {body: "work", key: true, epoch: true, op: true},
	WriteInvoke:      {body: "write", key: true, epoch: true, op: true},
	WriteReturn:      {body: "write", key: true, epoch: true, op: true, outcome: true},
	LedgerEntry:      {body: "entry", key: true}, // epoch and op: checkBody; a foreign one may be numbered
	LookKind:         {body: "look", key: true, seq: true},
	CoverageKind:     {body: "coverage", seq: true},
	GapKind:          {body: "coverage", seq: true},
	SampleKind:       {body: "sample", seq: true},
	LogMatch:         {body: "match"},
	ObjectKind:       {body: "object"},
	MachineLate:      {body: "late", since: 2},
	UnreadKind:       {body: "unread", seq: true, since: 3},
	BeliefKind:       {body: "belief", seq: true, since: 3}, // lock: Belief.check
	FaultResolve:     {body: "fault", op: true},
	FaultIntent:      {body: "fault", op: true},
	FaultApplied:     {body: "fault", op: true},
	FaultHit:         {body: "fault", op: true},
	FaultConfirmed:   {body: "fault", op: true},
	FaultVoid:        {body: "fault", op: true},
	FaultReverted:    {body: "fault", op: true},
	FaultVerified:    {body: "fault", op: true},
}
