package experiments

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
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
	RenewEvery   time.Duration // 0s, or left out: never
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
	*collector
	nodes map[*yaml.Node]string // its path, by node: which places of the experiment stand in this file

	locks, slos int  // of the experiment, without those of the sheet
	made        bool // the faults are made from it
}

// withdraw takes what a wrong sheet has brought out of e again, so that no word of it gets into what is said of e.
func (s *sheet) withdraw(e *Experiment) {
	if s == nil || len(s.list) == 0 {
		return
	}
	e.System.PolicySheet.File, e.System.Locks, e.SLOs = s.file, e.System.Locks[:s.locks], e.SLOs[:s.slos]
	if s.made {
		e.Faults = nil
	}
}

const sheetSection = "leader_election"

// readSheet turns the policy sheet of e into locks and takeover promises, after those of the file itself.
func (d *decoder) readSheet(e *Experiment) {
	const path = "system.policy_sheet"
	var names []string
	switch own := e.System.PolicySheet; {
	case d.touched(path):
	case own.File != "":
		names = d.sheetFile(e, path)
	case d.places[path] != nil:
		names = d.sheetLoops(e, &sheet{collector: d.collector}, d.places[path+"."+sheetSection], path+"."+sheetSection)
	}
	d.killEach(e, names)
}

// sheetFile reads the sheet from the file that e names.
func (d *decoder) sheetFile(e *Experiment, path string) []string {
	name := e.System.PolicySheet.File
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(d.file), name)
	}
	data, err := readRegular(name)
	if err != nil {
		d.add(path, d.place(path), "read the policy sheet: %v", err)
		return nil
	}
	s := &sheet{collector: newCollector(name, data), nodes: map[*yaml.Node]string{}, locks: len(e.System.Locks), slos: len(e.SLOs)}
	d.sheet = s
	s.hidden = true
	loops := s.loops(data)
	if loops == nil {
		return nil
	}
	names := d.sheetLoops(e, s, loops, sheetSection)
	if len(s.list) > 0 {
		s.withdraw(e)
		return nil
	}
	return names
}

// sheetLoops makes each loop of a sheet a lock, and gives their names.
func (d *decoder) sheetLoops(e *Experiment, s *sheet, loops *yaml.Node, path string) (names []string) {
	e.System.PolicySheet = PolicySheet{}
	if len(loops.Content) == 0 {
		s.add(path, loops, "a section with a loop under each name is wanted, not nothing")
	}
	for i := 0; i+1 < len(loops.Content); i += 2 {
		name := join(path, loops.Content[i].Value)
		if s.hidden {
			name = at(path, i/2)
		}
		d.sheetLock(e, s, name, loops.Content[i], loops.Content[i+1])
		names = append(names, loops.Content[i].Value)
	}
	return names
}

// loops is the leader_election section, or nil after saying what is wrong.
func (s *sheet) loops(data []byte) *yaml.Node {
	root := s.read(data)
	switch {
	case root == nil:
		return nil
	case root.Kind != yaml.MappingNode || len(root.Content) == 0:
		s.add("", root, "a policy sheet has a section %s, not %s", sheetSection, s.shape(root))
		return nil
	}
	var loops *yaml.Node
	var others []*yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch key := root.Content[i]; {
		case key.Value != sheetSection:
			others = append(others, key)
		case loops != nil:
			s.add(sheetSection, key, "given twice")
		default:
			loops = root.Content[i+1]
		}
	}
	if loops == nil { // another file: said once, not for each of its lines
		s.add("", root, "a policy sheet has a section %s, and this file has none", sheetSection)
		return nil
	}
	for _, key := range others {
		s.add("", key, "unknown section of a policy sheet: there is only %s", sheetSection)
	}
	if loops.Kind != yaml.MappingNode || len(loops.Content) == 0 {
		s.add(sheetSection, loops, "a section with a loop under each name is wanted, not %s", s.shape(loops))
		return nil
	}
	return loops
}

// shape is what stands there instead of a section with something in it.
func (s *sheet) shape(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		return "nothing"
	}
	return s.describe(n)
}

// sheetLock makes the loop at path in its sheet a lock of the experiment, and promises its takeover unless the file does.
func (d *decoder) sheetLock(e *Experiment, s *sheet, path string, key, n *yaml.Node) {
	if !identifier().MatchString(key.Value) {
		s.add(path, key, "a loop's name has letters, digits, dots, dashes and underscores, at most 63")
		return
	}
	var loop sheetLoop
	(&decoder{collector: s.collector}).value(path, key, n, settable(&loop), rule{})
	lock := at("system.locks", len(e.System.Locks))
	if s.touched(path) {
		d.broken = append(d.broken, lock)
		e.System.Locks = append(e.System.Locks, Lock{Name: key.Value})
		return
	}
	d.adopt(lock, s, path, key)
	e.System.Locks = append(e.System.Locks, Lock{
		Name: key.Value, Key: loop.LockKey, Policy: loop.policy(), Place: Place{File: s.file, Line: key.Line, Column: key.Column},
	})
	for i := range e.SLOs {
		if e.SLOs[i].Lock == key.Value && e.SLOs[i].Takeover != nil {
			return
		}
	}
	policy := loop.policy()
	e.SLOs = append(e.SLOs, SLO{Lock: key.Value, Takeover: Within(loopTakeover(&policy)), Line: key.Line})
}

// adopt lets checks of the lock at path find its values in the sheet.
func (d *decoder) adopt(path string, s *sheet, inSheet string, key *yaml.Node) {
	find := func(path, inSheet string, n *yaml.Node) {
		d.places[path] = n
		if s.nodes != nil {
			s.nodes[n] = inSheet
		}
	}
	find(path, inSheet, key)
	for field, name := range map[string]string{
		"key": "lock_key", "policy.ttl": "lock_ttl", "policy.renew_every": "renew_every",
		"policy.loop.poll": "poll_interval", "policy.loop.mode": "release_mode", "policy.release.mode": "release_mode",
	} {
		if n := s.places[join(inSheet, name)]; n != nil {
			find(join(path, field), join(inSheet, name), n)
		}
	}
}

// Faults is the timeline. A file may say what it is made from instead.
type Faults []Fault

func (*Faults) section() any { return &madeFaults{} }

// madeFaults is a timeline that is made from the policy sheet.
type madeFaults struct {
	From string `rule:"required,words=policy_sheet"` // policy_sheet: the holder of each of its loops is killed
	Each string `rule:"required,words=once"`         // once: one kill for each loop, one after another
}

// killEach makes the faults of a file that wants them made from its sheet: each loop loses its holder while that leads, right after a
// grant, which is the longest takeover of a loop that is left to its TTL. The next kill waits for the cycle in which this one finds its
// moment, and until every loop that the victim led may have been taken over.
func (d *decoder) killEach(e *Experiment, names []string) {
	made := d.places["faults"]
	if made == nil || made.Kind != yaml.MappingNode || d.touched("faults") {
		return
	}
	if d.sheet != nil {
		d.sheet.made = true
	}
	if d.places["system.policy_sheet"] == nil {
		d.add("faults.from", d.place("faults.from"), "there is no policy sheet: name its file, or write it, under system.policy_sheet")
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
		if l.Policy.Loop.Mode == lockcore.LoopExplicit {
			kill.Phase, kill.On = "", fault.Acquired
		}
		kill.Fill()
		f := Fault{At: next, Spec: kill}
		settable(&f)
		if f.ID = "kill-" + name; !identifier().MatchString(f.ID) {
			lock := at("system.locks", slices.IndexFunc(e.System.Locks, func(l Lock) bool { return l.Name == name }))
			d.add(lock, d.place(lock), "its fault would be called kill- and this name, which is longer than 63 characters: give the loop a shorter name")
		}
		path := at("faults", len(e.Faults))
		d.places[path], d.places[path+".kill"] = made, made
		e.Faults = append(e.Faults, f)
		next += l.Policy.TTL + l.Policy.Loop.Poll + slowest
	}
}

// policy is the loop's, with what the sheet leaves open as in the published profiles.
func (l *sheetLoop) policy() lockcore.Policy {
	p := lockcore.Policy{
		TTL: l.LockTTL, RenewEvery: l.RenewEvery, Class: lockcore.Standard, OpTimeout: sheetOpTimeout,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: sheetOpTimeout},
		Loop:    &lockcore.Loop{Poll: l.PollInterval, Mode: lockcore.LoopMode(l.ReleaseMode), Tick: min(sheetMaxTick, l.PollInterval/10)},
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

// readRegular reads a file of sensible size; what is no file, such as a pipe, is refused: it might never end.
func readRegular(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		if pe := new(fs.PathError); errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}
