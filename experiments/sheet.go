package experiments

import (
	"path/filepath"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/internal/vocab"
	"github.com/lockdrill/lockdrill/lockcore"
)

// PolicySheet is a team's list of leader loops: the name of a file beside the experiment, or the sheet itself. It is empty in an
// experiment that Load returned: its loops are locks then.
type PolicySheet struct {
	File           string               `file:"-"`
	LeaderElection map[string]sheetLoop `rule:"required"` // the loops, each under its name
}

// sheetLoop is one loop of a policy sheet, as teams have it before they know lockdrill.
type sheetLoop struct {
	PollInterval time.Duration `rule:"required,positive"` // between two tries to lead
	LockKey      string        `rule:"required"`          // the loop's key
	LockTTL      time.Duration `rule:"required,positive"` // its lease
	RenewEvery   time.Duration // 0s, the default: never
	ReleaseMode  string        `rule:"required,words=ttl_hold|explicit"` // ttl_hold: left to its TTL after a tick; explicit: released
}

// What a sheet does not say is as in the published loops.
const (
	sheetOpTimeout = 2 * time.Second
	sheetMaxTick   = 2 * time.Second // of work in one tick: a tenth of the poll, and no more than this
)

// sheet is a policy sheet that is being read. Its problems are told with its own places. One in a file of its own may be any file, named
// by mistake or by somebody who wants to see it: nothing of it is shown but the schema's own words.
type sheet struct {
	*vocab.File
	locks, slos int  // of the experiment, without those of the sheet
	made        bool // the faults are made from it
}

// withdraw takes what a wrong sheet has brought out of e again, so that no word of it gets into what is said of e.
func (s *sheet) withdraw(e *Experiment) {
	if s == nil || s.Problems() == 0 {
		return
	}
	e.System.PolicySheet.File, e.System.Locks, e.SLOs = s.Name, e.System.Locks[:s.locks], e.SLOs[:s.slos]
	if s.made {
		e.Faults = nil
	}
}

const sheetSection = "leader_election"

// readSheet turns the policy sheet of e into locks and takeover promises, after those of the file itself. It gives the sheet, where that
// is a file of its own.
func readSheet(f *vocab.File, e *Experiment) (s *sheet) {
	const path = "system.policy_sheet"
	var names []string
	switch own := e.System.PolicySheet; {
	case f.Invalid(path):
	case own.File != "":
		s, names = sheetFile(f, e, path)
	case f.Node(path) != nil:
		names = (&sheet{File: f}).makeLocks(f, e, own.LeaderElection, path+"."+sheetSection)
	}
	killEach(f, e, s, names)
	return s
}

// sheetFile reads the sheet from the file that e names.
func sheetFile(f *vocab.File, e *Experiment, path string) (s *sheet, names []string) {
	name := e.System.PolicySheet.File
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(f.Name), name)
	}
	data, err := regular.ReadMost(name, vocab.MaxFile)
	if err != nil {
		f.Add(path, f.Place(path), "read the policy sheet: %s: %v", name, err)
		return nil, nil
	}
	s = &sheet{File: vocabulary.Open(name, data, true), locks: len(e.System.Locks), slos: len(e.SLOs)}
	f.Attach(s.File)
	var doc PolicySheet
	if root := s.Root; root != nil && root.Kind == yaml.MappingNode && !slices.ContainsFunc(root.Content, func(n *yaml.Node) bool { return n.Value == sheetSection }) {
		s.Add("", root, "a policy sheet has a section %s, and this file has none", sheetSection) // another file: said once, not for each of its lines
	} else {
		s.Decode(&doc)
	}
	if s.Root != nil && s.Problems() == 0 {
		names = s.makeLocks(f, e, doc.LeaderElection, sheetSection)
	}
	if s.Problems() > 0 {
		s.withdraw(e)
		return s, nil
	}
	return s, names
}

// makeLocks makes each loop of the sheet a lock of the experiment that f is read from, and gives their names.
func (s *sheet) makeLocks(f *vocab.File, e *Experiment, loops map[string]sheetLoop, path string) (names []string) {
	e.System.PolicySheet = PolicySheet{}
	section := s.Node(path)
	if section == nil || section.Kind != yaml.MappingNode {
		return nil
	}
	if len(section.Content) == 0 {
		s.Add(path, section, "a section with a loop under each name is wanted, not nothing")
	}
	for i := 0; i+1 < len(section.Content); i += 2 {
		key := section.Content[i]
		s.lock(f, e, s.Entry(path, i/2, key.Value), key, loops[key.Value])
		names = append(names, key.Value)
	}
	return names
}

// lock makes the loop at path in the sheet a lock of the experiment, and promises its takeover unless the file does.
func (s *sheet) lock(f *vocab.File, e *Experiment, path string, key *yaml.Node, loop sheetLoop) {
	if !vocab.Identifier().MatchString(key.Value) {
		s.Add(path, key, "a loop's name has letters, digits, dots, dashes and underscores, at most 63")
		return
	}
	lock := vocab.At("system.locks", len(e.System.Locks))
	if s.Invalid(path) {
		f.Lose(lock)
		e.System.Locks = append(e.System.Locks, Lock{Name: key.Value})
		return
	}
	s.adopt(f, lock, path, key)
	policy := loop.policy()
	place := Place{File: s.Name, Line: key.Line, Column: key.Column}
	e.System.Locks = append(e.System.Locks, Lock{Name: key.Value, Key: loop.LockKey, Policy: policy, Unfenced: !e.Observed(), Beyond: publishedLoop().Beyond, Place: place})
	if !slices.ContainsFunc(e.SLOs, func(s SLO) bool { return s.Lock == key.Value && s.Takeover != nil }) {
		e.SLOs = append(e.SLOs, SLO{Lock: key.Value, Takeover: Within(loopTakeover(&policy)), Place: place})
	}
}

// adopt lets checks of the lock at path in f find its values in the sheet.
func (s *sheet) adopt(f *vocab.File, path, inSheet string, key *yaml.Node) {
	f.Adopt(path, key, s.File, inSheet)
	for field, name := range map[string]string{
		"key": "lock_key", "policy.ttl": "lock_ttl", "policy.renew_every": "renew_every",
		"policy.loop.poll": "poll_interval", "policy.loop.mode": "release_mode", "policy.release.mode": "release_mode",
	} {
		if n := s.Node(vocab.Join(inSheet, name)); n != nil {
			f.Adopt(vocab.Join(path, field), n, s.File, vocab.Join(inSheet, name))
		}
	}
}

// Faults is the timeline. A file may say what it is made from instead.
type Faults []Fault

// Section is what a file may have in place of the list.
func (*Faults) Section() any { return &madeFaults{} }

// madeFaults is a timeline that is made from the policy sheet.
type madeFaults struct {
	From string `rule:"required,words=policy_sheet"` // the holder of each of its loops is killed
	Each string `rule:"required,words=once"`         // one kill for each loop
}

// killEach makes the faults of a file that wants them made from its sheet: each loop loses its holder while that leads, right after a
// grant, which is the longest takeover of a loop that is left to its TTL. The next kill waits for the cycle in which this one finds its
// moment, and until every loop that the victim led may have been taken over.
func killEach(file *vocab.File, e *Experiment, s *sheet, names []string) {
	made := file.Node("faults")
	if made == nil || made.Kind != yaml.MappingNode || file.Invalid("faults") {
		return
	}
	if s != nil {
		s.made = true
	}
	if file.Node("system.policy_sheet") == nil {
		file.Add("faults.from", file.Place("faults.from"), "there is no policy sheet: name its file, or write it, under system.policy_sheet")
	}
	var slowest, next time.Duration
	for _, name := range names {
		if l := e.Lock(name); l != nil && l.Loop() {
			slowest = max(slowest, loopTakeover(&l.Policy))
		}
	}
	for _, name := range names {
		l := e.Lock(name)
		if l == nil || !l.Loop() {
			continue
		}
		kill := &fault.Kill{HolderOf: name, Phase: fault.AfterGrant}
		if l.Policy.Loop.Mode == lockcore.LoopExplicit && !e.Observed() { // of an observed one nobody says when it acquires
			kill.Phase, kill.On = "", fault.Acquired
		}
		kill.Fill()
		f := Fault{At: next, Spec: kill}
		f.Repeat.SetDefaults()
		if f.ID = "kill-" + name; !vocab.Identifier().MatchString(f.ID) {
			lock := vocab.At("system.locks", slices.IndexFunc(e.System.Locks, func(l Lock) bool { return l.Name == name }))
			file.Add(lock, file.Place(lock), "its fault would be called kill- and this name, which is longer than 63 characters: give the loop a shorter name")
		}
		path := vocab.At("faults", len(e.Faults))
		file.Set(path, made)
		file.Set(path+".kill", made)
		e.Faults = append(e.Faults, f)
		next += l.Policy.TTL + l.Policy.Loop.Poll + slowest
	}
}

// publishedLoop is a shipped profile of a loop that a sheet describes: what it says beyond its policy is true of each.
func publishedLoop() *Lock {
	l, err := Profile("cordum/pending-replayer")
	if err != nil {
		panic(err) // embedded
	}
	return l
}

// policy is the loop's, with what the sheet leaves open as in the published profiles.
func (l *sheetLoop) policy() lockcore.Policy {
	p := lockcore.Policy{
		TTL: l.LockTTL, RenewEvery: l.RenewEvery, Class: lockcore.LegacyWarn, OpTimeout: sheetOpTimeout,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: sheetOpTimeout, Undo: lockcore.UndoNone},
		Loop:    &lockcore.Loop{Poll: l.PollInterval, Mode: lockcore.LoopMode(l.ReleaseMode), Tick: min(sheetMaxTick, l.PollInterval/10), Effect: lockcore.EffectAfter},
	}
	if p.Loop.Mode == lockcore.LoopExplicit {
		p.Release = lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: sheetOpTimeout}
	}
	(&assumed{Policy: &p}).fill()
	return p
}

// loopTakeover is the default promise of a loop of the sheet: TTL + poll + a call in flight and the call that takes over, and as much
// again as one of them for jitter and the start of the work.
func loopTakeover(p *lockcore.Policy) time.Duration { return p.TTL + p.Loop.Poll + 3*sheetOpTimeout }
