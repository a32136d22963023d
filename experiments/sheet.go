package experiments

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/lockcore"
)

// sheetLoop is one loop of a policy sheet, as teams have it before they know lockdrill.
type sheetLoop struct {
	PollInterval time.Duration `rule:"required,positive"`
	LockKey      string        `rule:"required"`
	LockTTL      time.Duration `rule:"required,positive"`
	RenewEvery   time.Duration
	ReleaseMode  string `rule:"required,words=ttl_hold|explicit"`
}

// What a sheet does not say is as in the published loops.
const (
	sheetOpTimeout = 2 * time.Second
	sheetMaxTick   = 2 * time.Second // of work in one tick: a tenth of the poll, and no more than this
)

// sheet is a policy sheet that is being read. Its problems are told with its own places.
type sheet struct {
	*collector
	nodes map[*yaml.Node]string // its path, by node: which places of the experiment stand in this file
}

const sheetSection = "leader_election"

// readSheet turns the policy sheet that e names into locks and takeover promises, after those of the file itself.
func (d *decoder) readSheet(e *Experiment) {
	const path = "system.policy_sheet"
	if e.System.PolicySheet == "" || d.touched(path) {
		return
	}
	name := e.System.PolicySheet
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(d.file), name)
	}
	data, err := readRegular(name)
	if err != nil {
		d.add(path, d.place(path), "read the policy sheet: %v", err)
		return
	}
	s := &sheet{collector: newCollector(name, data), nodes: map[*yaml.Node]string{}}
	d.sheet = s
	s.hidden = true // it may be any file, named by mistake
	if loops := s.loops(data); loops != nil {
		e.System.PolicySheet = ""
		for i := 0; i+1 < len(loops.Content); i += 2 {
			d.sheetLock(e, loops.Content[i], loops.Content[i+1])
		}
	}
}

// loops is the leader_election section, or nil after saying what is wrong.
func (s *sheet) loops(data []byte) *yaml.Node {
	root := s.read(data)
	switch {
	case root == nil:
		return nil
	case root.Kind != yaml.MappingNode || len(root.Content) == 0:
		s.add("", root, "a policy sheet has a section %s, not %s", sheetSection, shape(root))
		return nil
	}
	var loops *yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch key := root.Content[i]; {
		case key.Value != sheetSection:
			s.add(key.Value, key, "unknown section of a policy sheet: there is only %s", sheetSection)
		case loops != nil:
			s.add(key.Value, key, "given twice")
		default:
			loops = root.Content[i+1]
		}
	}
	if loops == nil {
		return nil
	}
	if loops.Kind != yaml.MappingNode || len(loops.Content) == 0 {
		s.add(sheetSection, loops, "a section with a loop under each name is wanted, not %s", shape(loops))
		return nil
	}
	return loops
}

// shape is what stands there instead of a section with something in it, without its words.
func shape(n *yaml.Node) string {
	return cmp.Or(map[yaml.Kind]string{yaml.MappingNode: "nothing", yaml.SequenceNode: "a list"}[n.Kind], "a single value")
}

// sheetLock makes one loop of the sheet a lock of the experiment, and promises its takeover unless the file does.
func (d *decoder) sheetLock(e *Experiment, key, n *yaml.Node) {
	s, path := d.sheet, join(sheetSection, key.Value)
	if !identifier.MatchString(key.Value) {
		s.add(path, key, "%q is no name: letters, digits, dots, dashes and underscores, at most 63", key.Value)
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
	d.adopt(lock, path, key)
	e.System.Locks = append(e.System.Locks, Lock{
		Name: key.Value, Key: loop.LockKey, Policy: loop.policy(), Place: Place{File: s.file, Line: key.Line, Column: key.Column},
	})
	for i := range e.SLOs {
		if e.SLOs[i].Lock == key.Value && e.SLOs[i].Takeover != nil {
			return
		}
	}
	limit := loop.takeover()
	e.SLOs = append(e.SLOs, SLO{Lock: key.Value, Takeover: Within(limit), Line: key.Line})
}

// adopt lets checks of the lock at path find its values in the sheet.
func (d *decoder) adopt(path, inSheet string, key *yaml.Node) {
	s := d.sheet
	d.places[path], s.nodes[key] = key, inSheet
	for field, name := range map[string]string{
		"key": "lock_key", "policy.ttl": "lock_ttl", "policy.renew_every": "renew_every",
		"policy.loop.poll": "poll_interval", "policy.loop.mode": "release_mode", "policy.release.mode": "release_mode",
	} {
		if n := s.places[join(inSheet, name)]; n != nil {
			d.places[join(path, field)], s.nodes[n] = n, join(inSheet, name)
		}
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
	normalise(&p)
	return p
}

// takeover is the loop's default promise: TTL + poll + a call in flight and the call that takes over, and as much again as one of
// them for jitter and the start of the work.
func (l *sheetLoop) takeover() time.Duration {
	return l.LockTTL + l.PollInterval + 3*sheetOpTimeout
}

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
