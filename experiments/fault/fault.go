// Package fault is the kinds of faults: a section of the file and a row for each. A row says what makes the fault, whom it strikes, what
// it does to a drill, what its values must keep together, and the words for it. It makes no fault and judges none: injectors, rehearsal
// and analysis ask it.
//
// Its one invariant: whatever differs from kind to kind is asked of a Fault; nobody else asks which kind it is.
package fault

import (
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Spec is what one fault does: a pointer to the section of its kind, with the values of the file. In a file its fields are spelled in
// lower case, HolderOf as holder_of; the tag `rule` says what a value must be like, `scale` whether time_scale multiplies a duration,
// and `file:"-"` that a file does not have the field. Of gives all that is known of it.
type Spec interface {
	Kind() string // the word for it in files and events
	Target() Aim  // whom it strikes
}

// Class of the takeovers that a fault brings about.
const (
	ClassCrash    = "crash"
	ClassHandOver = "hand-over"
	ClassPause    = "pause"
	ClassTheft    = "theft"
	ClassStore    = "store" // the store itself was restarted, flushed or failed over
)

// Traits are what conductor, judge and reports need to know of a fault. What is not set, is not so.
type Traits struct {
	Unknown bool // of a kind that this version does not know: nothing may be concluded from it

	Class  string // of its takeovers: one of the Class words; "" = it keeps nobody from a lease
	Noun   string // what one of them is called in a count
	Called string // what it is called beside its class, in headings; "" = its kind

	GoesOn  string // why it would not end by itself, and so must have a `for`; "" = it ends
	Instant string // what it is called where it can have no `for`; "" = it can

	Kills    bool // ends its victim: nothing is undone, and a replica replaces it
	Apart    bool // of several victims, each is struck by itself, and has a record of its own in the journal
	InVictim bool // lives in its victims, and ends with them at the latest
	OnTheWay bool // lies on the ways to the store, which belong to replicas' names, whichever life they are in
	Cuts     bool // nothing gets through on those ways
	Drops    bool // some calls do not, or their answers
	AtStore  bool // befalls the locks' store itself
	AtKey    bool // takes one key from its holder
	Session  bool // ... by ending the session that the lock belongs to
	AtOnce   bool // is over as soon as it is done

	Elsewhere bool // strikes neither a replica nor the locks' store, as far as anybody but its author knows

	Stands float64 // share of its time for which its victims stand still, 0 to 1: 1 = nothing gets through from them

	Fails   lockcore.Op   // operation on the lock that it makes fail; "" = none
	Count   int           // so many of them; 0 = as long as it lasts
	Applied bool          // they take effect all the same: only the answer is lost
	Share   float64       // of them; 0 = all
	Delay   time.Duration // by which each is held back
	Lock    string        // only those on this lock; "" = on any that it is aimed at
	Via     string        // ViaWorker or ViaProxy: where they are made to fail

	Holds time.Duration // a call may be on its way for so much longer

	Plants    bool // puts a stranger's token into the key
	Empties   bool // the store is empty afterwards
	FailsOver bool // a standby becomes the store: it may lag
	KeepsData bool // the store must keep its data through a death

	NotEmbedded string        // what the embedded store cannot do for it; "" = it can
	Rolls       bool          // goes through all replicas: with Kills one a shot, else all of them by one call
	Grace       time.Duration // that its victims have from being asked to end; 0 = as their supervisor grants it
	Owner       string        // of pods, that is asked to replace them: deployment/NAME

	DeletesPods bool // asks the API server to delete a pod, which goes around disruption budgets
	Evicts      bool // asks it to evict a pod, which honours them
	ByAPIProxy  bool // made by the lockdrill proxy before the API server
	CordonsNode bool // lets no new pod onto the node of its victim
	WholeNode   bool // all replicas on the node of its victim are victims
	LabelsPods  bool // labels a pod, and makes a NetworkPolicy for it
	Command     []string
}

// Description says of a fault what it does, how that is confirmed by observation, and how it is undone: a sentence each.
type Description struct {
	Does, Confirmed, Undone string
}

// Timed is a fault that waits for a moment within the lease of the lock that it is aimed at.
type Timed interface {
	Spec
	Moment() Phase // "" = it strikes no holder of a lock
}

// Filled is a fault of which some defaults depend on other values.
type Filled interface {
	Spec
	Fill()
}

// Checker takes what is wrong with a fault's section of a file, and answers what the file says elsewhere. Fields are named as the
// file spells them; "" is the section itself.
type Checker interface {
	Around() Around
	Given(field string) bool // it stands in the file
	Check(field, format string, args ...any)
	// Lock is the lock of that name. nil: there is none, which is said at field, or its policy could not be read.
	Lock(field, name string) *Lock
	Locks() []*Lock // all; nil where one could not be read
}

// Around is what a file says around a fault.
type Around struct {
	For       time.Duration // of the fault
	TimeScale float64
	Faults    int // in the file
	Replicas  []string
	Store     string   // kind of the locks' store
	Servers   int      // of it, that the run starts
	Redis     string   // mode; "" = the locks are in another store
	Allow     []string // faults that may be done to an external Redis
	Sentinels bool     // which is the one that they name
	Cluster   bool     // which is several servers
	Kinds     []string // of objects that may be made in the cluster, though they are guarded
	Pods      bool     // replicas are pods; else processes of this host
	Observed  bool     // replicas are somebody's own
	Stored    bool     // the file is that of a recorded run: what was right when it was written is read
	PodsProxy bool     // a Toxiproxy that pods reach
	Routed    bool     // the replicas' traffic passes proxies of a Toxiproxy that are somebody's own
	Shared    bool     // it is one for all of them
	Tapped    bool     // it passes a lockdrill proxy
	APIProxy  bool     // the replicas reach the API server through a lockdrill proxy
}

// Lock is a lock as far as faults depend on it.
type Lock struct {
	Name      string
	Policy    *lockcore.Policy
	Unrenewed string // why no holder ever renews it; "" = they do
	Lease     bool   // it is a Lease object
}

// Reddens are the measures that the fault may turn red in any lock, however right that is: rows of a verdict by name, where
// "overlap.work" is one and "not_owned" all that begin so. Whatever else turns red, the lock has to answer for.
func (t Traits) Reddens() []string {
	var rows []string
	if t.AtKey || t.Empties || t.FailsOver || t.AtStore && t.Class == ClassStore && !t.KeepsData && !t.lasts() {
		// The key is gone while its holder works, and nobody can know before the next call.
		rows = append(rows, "abandonment", "overlap.belief", "overlap.work", "unowned_work", "not_owned")
	}
	if t.InVictim && t.Stands > 0 {
		// Who stands still learns afterwards that the lease has run out.
		rows = append(rows, "abandonment.late", "not_owned")
	}
	if t.Cuts || t.Drops || t.AtStore && t.lasts() || t.OnTheWay && t.Holds > 0 {
		// A release does not get through, and neither does what gives back a grant whose answer came too late or never.
		rows = append(rows, "lock_debt", "orphan_acquires")
	} else if t.Fails == lockcore.OpRelease && !t.Applied {
		rows = append(rows, "lock_debt")
	}
	return rows
}

// lasts reports a fault of the store that goes on until it is ended.
func (t Traits) lasts() bool { return t.GoesOn != "" }
