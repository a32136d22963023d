package experiments

import (
	"cmp"
	"regexp"
	"time"
)

// Belief is what tells whether a replica of an observed system believes that it holds a lock. Exactly one source is set.
type Belief struct {
	_       struct{}       `rule:"one=metric|log|http|command"`
	Metric  *HolderMetric  // a gauge of each replica, above 0 while it leads
	Log     *BeliefLog     // lines of a replica's log
	HTTP    *BeliefHTTP    `file:"http"` // an endpoint of each replica
	Command *BeliefCommand // a command of yours, which prints the replicas that believe
	Every   time.Duration  `rule:"positive,default=200ms,least=10ms" scale:"no"` // how often replicas are asked, or their logs read
	MaxGap  time.Duration  `rule:"positive,default=2s,least=10ms" scale:"no"`    // longest time in which a live replica could not be asked
}

// BeliefLog reads from a replica's log when it believes to hold the lock. The log tells of every change.
type BeliefLog struct {
	Gain string `rule:"required,pattern,format=regexp"` // RE2 of the line by which belief begins; of job locks with a group key
	Lose string `rule:"required,pattern,format=regexp"` // RE2 of the line by which it ends, likewise
}

// BeliefHTTP asks each replica.
type BeliefHTTP struct {
	URL   string `file:"url" rule:"required,format=exposition"` // template of each replica's address: http://127.0.0.1:{port}/leader
	Leads string `rule:"pattern,format=regexp"`                 // RE2 that its answer matches where it leads; left out: it leads where it answers 200
}

// BeliefCommand runs a command that prints the names, pids or pods of all replicas that believe, and nothing where none does.
type BeliefCommand struct {
	Run    []string      `rule:"required"`                               // program and arguments
	Within time.Duration `rule:"positive,default=2s,most=4s" scale:"no"` // its limit
}

// Word is the source's.
func (b *Belief) Word() string {
	return cmp.Or(append(vocabulary.Given(b), "command")...)
}

// BeliefKey is the group of a pattern that is the key that a line is about.
const BeliefKey = "key"

// Keyed reports that lines say which key they are about.
func (b *BeliefLog) Keyed() bool {
	gain, err := regexp.Compile(b.Gain)
	return err == nil && gain.SubexpIndex(BeliefKey) >= 0
}

// belief checks what tells what replicas believe.
func (c *checker) belief(at string, l *Lock) {
	b, path := l.Belief, at+".belief"
	if b == nil || !c.e.Observed() || !c.sure(at, "system.processes") || len(vocabulary.Given(b)) == 0 {
		return
	}
	c.Refuse(b.Every > b.MaxGap, path+".max_gap", "is shorter than every: each stretch between two looks would be a gap")
	switch p := c.e.System.Processes; {
	case b.Log != nil && NoPattern(b.Log.Gain, "")+NoPattern(b.Log.Lose, "") != "": // which is said
	case c.Refuse(!l.Loop() && (b.Log == nil || !b.Log.Keyed()), path, "does not say which key it is about, and lock %s is taken per job: take log, with a group key in its patterns", l.Name):
	case b.Log != nil:
		lose := regexp.MustCompile(b.Log.Lose)
		_ = c.Refuse(p != nil && p.Log == "", path+".log", "reads the logs of the replicas, and system.processes.log does not say where they are") ||
			c.Refuse((lose.SubexpIndex(BeliefKey) >= 0) != b.Log.Keyed(), path+".log", "gain and lose say the key both, or neither: give both patterns the group key")
	case b.Metric != nil:
		c.holderMetric(path+".metric", b.Metric)
	case b.HTTP != nil:
		c.Refuse(len(Placeholders(b.HTTP.URL)) == 0 && c.e.System.Replicas > 1, path+".http.url", "is one address, and system.replicas is %d: say what differs, such as {%s}", c.e.System.Replicas, c.e.replicaWords()[0])
	}
}
