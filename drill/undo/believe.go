package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/regular"
)

const (
	// MarkEnv is the environment variable of everything that a run starts: the run's nonce and the replica's incarnation.
	MarkEnv = "LOCKDRILL_RUN"
	// NonceFile stands in a folder that a run made, and holds the run's nonce.
	NonceFile = ".lockdrill-run"
	// experimentFile stands beside the journal from before its first record.
	experimentFile = "experiment.yaml"
	// cgroupPrefix begins the name of a run's cgroup; its nonce follows.
	cgroupPrefix = "lockdrill-"
)

// RefusedError says that a record names what the run cannot have changed. Nothing of it is done, nor recommended to a person.
type RefusedError struct{ Why error }

func (e *RefusedError) Error() string { return e.Why.Error() }
func (e *RefusedError) Unwrap() error { return e.Why }

// MakeFolder makes a folder of the run, with the run's nonce in it: what has no nonce is not removed by a journal's word. There must be none of that name.
func (j *Journal) MakeFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if j == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(path, NonceFile), []byte(j.nonce), 0o600); err != nil {
		return errors.Join(err, os.RemoveAll(path))
	}
	return nil
}

// believe refuses a record of what the run cannot have changed: a journal is data, and who has written it is another question. What it
// returns is the record with what earlier versions did not write.
func (f *Found) believe(h *Header, r Record) (Record, error) {
	err := f.knowsSecrets(r.Store)
	if err == nil {
		err = f.reaches(h, &r)
	}
	if err == nil && (r.Kind == StandServer || r.Kind == StandReplica) {
		err = f.madeFolder(h, r.Folder)
	}
	if err == nil {
		err = h.madeCgroup(r.Cgroup)
	}
	if err == nil {
		err = f.namesHook(h, r)
	}
	if err == nil {
		err = f.namesObject(r)
	}
	if err != nil {
		return r, &RefusedError{err}
	}
	if r.Process == nil && r.Cgroup == "" && r.Hook == nil {
		return r, nil
	}
	if host, err := os.Hostname(); err == nil && h.Hostname != "" && h.Hostname != host { // it is not seen from here, and so not verified to be gone
		return r, fmt.Errorf("its processes lived on host %s, and its commands ran there: run lockdrill recover there", h.Hostname)
	}
	if r.Process == nil {
		return r, nil
	}
	p := *r.Process
	if p.Alone {
		return r, r.onlyContinues()
	}
	if h.V == 1 {
		p.Folder = r.Folder // of a server, which lives there; an earlier lockdrill's worker is known by its command
	}
	r.Process = &p
	if err := h.startedProcess(p); err != nil {
		return r, &RefusedError{err}
	}
	return r, nil
}

// onlyContinues refuses a record that would do more to somebody's own process than let it go on: it bears no mark of the run's, and a
// process that goes on is what is least to be feared of a journal's word.
func (r *Record) onlyContinues() error {
	if r.Halts() && r.Shot.Fault != nil && r.Cgroup == "" && r.Folder == "" {
		return nil
	}
	return &RefusedError{fmt.Errorf("process %d is somebody's own, and a record of kind %s is not one of a fault that made it stand still: it is not touched", r.Process.PID, r.Kind)}
}

// namePrefix begins the names of what runs make on servers of somebody's own; the run follows.
const namePrefix = "lockdrill-"

// reaches refuses a record of keys, proxies and toxics that another has made: their names carry the run, and a server that exists by
// itself is one that the experiment names.
func (f *Found) reaches(h *Header, r *Record) error {
	if h.Run == "" {
		return errors.New("the journal does not say of which run it is: nothing is touched")
	}
	if r.Kind == StandKeys && (r.Key == nil || r.Key.Name != "lockdrill:"+h.Run+":") {
		return fmt.Errorf("the record names keys that are not of run %s: they are not touched", h.Run)
	}
	if r.Shot.Fault != nil && !r.placed() {
		return errors.New("the record does not say where its fault is")
	}
	if err := f.namesStore(r); err != nil {
		return err
	}
	if r.Cluster != nil && r.Cluster.Run != "" && !ofRun(r.Cluster.Run, h.Run) {
		return fmt.Errorf("the record names what run %s has in namespace %s, and this is run %s: it is not touched", r.Cluster.Run, r.Cluster.Namespace, h.Run)
	}
	if r.Tap != nil && !strings.HasPrefix(r.Tap.ID, h.Run+"-") {
		return fmt.Errorf("the record names fault %s of a proxy, which is not of run %s: it is not touched", r.Tap.ID, h.Run)
	}
	if r.Tap != nil {
		if _, err := f.names("lockdrill proxy", r.Tap.API); err != nil {
			return err
		}
	}
	routes := r.Routes
	if r.Route != nil {
		routes = append(slices.Clone(routes), *r.Route)
	}
	for _, w := range routes {
		if !w.Theirs && !strings.HasPrefix(w.Proxy, namePrefix+h.Run+"-") {
			return fmt.Errorf("the record names proxy %s at %s, which is not of run %s: it is not touched", w.Proxy, w.API, h.Run)
		}
		for _, t := range w.Toxics {
			if !strings.HasPrefix(t, namePrefix+h.Run+"-") {
				return fmt.Errorf("the record names toxic %s of proxy %s, which is not of run %s: it is not touched", t, w.Proxy, h.Run)
			}
		}
		if w.Own != 0 { // it ended with its runner
			continue
		}
		data, err := f.names("Toxiproxy", w.API)
		if err != nil {
			return err
		}
		if w.Theirs && (r.Kind == StandRoute || !experiments.Routes(data, w.Proxy)) {
			return fmt.Errorf("the record names proxy %s at %s as somebody's own, and such a one is %s's proxy.route, and never removed: it is not touched", w.Proxy, w.API, experimentFile)
		}
	}
	return nil
}

// placed reports that the record of a fault says where that is: what was done nowhere would count as undone.
func (r *Record) placed() bool {
	switch t := fault.Seen(r.Kind, "", "").Traits(); {
	case t.AtStore:
		return r.Store != nil
	case !t.OnTheWay || t.Fails != "":
		return true
	case t.LabelsPods:
		return r.Cluster != nil
	case t.ByAPIProxy:
		return r.Tap != nil
	}
	return len(r.Routes) > 0 || r.Route != nil
}

// names: what exists by itself is one that the experiment names, which it returns.
func (f *Found) names(what, api string) ([]byte, error) {
	data, err := f.experiment()
	if err != nil {
		return nil, fmt.Errorf("which %s the experiment names cannot be told: %w", what, err)
	}
	if !experiments.Names(data, api) {
		return nil, fmt.Errorf("the record names the %s at %s, and %s beside the journal does not: it is not touched", what, api, experimentFile)
	}
	return data, nil
}

// namesStore: what is done at a store of somebody's own is done at one that the experiment names. A Lease is in the cluster, and of a
// fail-over nothing is put back.
func (f *Found) namesStore(r *Record) error {
	s := r.Store
	if s == nil || s.Owned || s.Kind == string(experiments.StoreLease) || r.Shot.Fault != nil && r.Shot.Fault.Form == string(fault.StoreFailover) {
		return nil
	}
	data, err := f.experiment()
	if err != nil {
		return fmt.Errorf("which stores the experiment names cannot be told: %w", err)
	}
	at, named := []string{s.Addr}, experiments.AddressesIn(data)
	if !s.Cluster || s.PasswordEnv != "" { // a cluster's others are known from the first one, and have keys of the run alone
		at = append(at, s.Addrs...)
	}
	if s.Sentinel != nil {
		at = append(at, s.Sentinel.Addrs...)
	}
	for _, addr := range at {
		if !slices.Contains(named, addr) {
			return fmt.Errorf("the record names the store at %s, and %s beside the journal does not: it is not touched", addr, experimentFile)
		}
	}
	return nil
}

// ofRun reports that a label's value is that of the run: it is as long as a label may be, and the end of a longer one is another.
func ofRun(value, run string) bool {
	const most = 63
	return value == run || len(run) > most && len(value) == most && strings.HasPrefix(value, run[:50]+"-")
}

// knowsSecrets: the variable that a record names is sent to the address that it names, and so to none but those that the experiment
// names beside the variable.
func (f *Found) knowsSecrets(s *Store) error {
	if s == nil {
		return nil
	}
	at := append([]string{s.Addr}, s.Addrs...)
	if s.Sentinel != nil {
		at = append(at, s.Sentinel.Addrs...)
	}
	if err := f.knowsVariables(at, s.UsernameEnv, s.PasswordEnv); err != nil || s.Sentinel == nil {
		return err
	}
	return f.knowsVariables(s.Sentinel.Addrs, s.Sentinel.UsernameEnv, s.Sentinel.PasswordEnv)
}

// knowsVariables does so for variables, of which "" is none, and all addresses that they are sent to.
func (f *Found) knowsVariables(at []string, names ...string) error {
	if names = slices.DeleteFunc(names, func(name string) bool { return name == "" }); len(names) == 0 {
		return nil
	}
	data, err := f.experiment()
	if err != nil {
		return fmt.Errorf("which environment variables the experiment names cannot be told: %w", err)
	}
	known := experiments.VariablesIn(data)
	for _, name := range names {
		for _, addr := range at {
			if to := experiments.AddressesOf(data, name); slices.Contains(known, name) && len(to) > 0 && !slices.Contains(to, addr) {
				return fmt.Errorf("the record sends the environment variable %s to %s, and %s beside the journal to %s: it is not read", name, addr, experimentFile, strings.Join(to, ", "))
			}
		}
		if !slices.Contains(known, name) {
			return fmt.Errorf("the record names the environment variable %s, and %s beside the journal does not: it is not read", name, experimentFile)
		}
	}
	return nil
}

// experiment is the experiment beside the journal, as the run wrote it: as it was first read, whatever becomes of it.
func (f *Found) experiment() ([]byte, error) {
	if f.wrote != nil {
		return f.wrote, nil
	}
	info, err := f.root.Stat(experimentFile)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", experimentFile)
	}
	if err != nil {
		return nil, err
	}
	data, err := f.root.ReadFile(experimentFile)
	if err == nil && len(f.known.Entries) > 0 { // before the first record it may not stand there whole
		f.wrote = data
	}
	return data, err
}

// namesHook: a command that a record names is run only if the experiment's fault of that id names it too.
func (f *Found) namesHook(h *Header, r Record) error {
	if r.Hook == nil {
		return nil
	}
	if h.Nonce == "" || !strings.HasPrefix(r.Hook.Mark, h.Nonce+"/"+HookMark) {
		return fmt.Errorf("the commands of the hook are not said to carry the run's mark: nothing is ended or run")
	}
	id := ""
	if b := r.Shot.Fault; b != nil {
		id = b.ID
	}
	data, err := f.experiment()
	if err != nil {
		return fmt.Errorf("which commands the experiment names cannot be told: %w", err)
	}
	if command, dir := experiments.UndoOf(data, id); !slices.Equal(command, r.Hook.Undo) || dir != r.Hook.Dir {
		return fmt.Errorf("the record names the command %q in %q, and fault %q of %s beside the journal names another: it is not run", r.Hook.Undo, r.Hook.Dir, id, experimentFile)
	}
	return nil
}

// namesObject: an object is deleted only if it is of the kind that the experiment's fault of that id makes.
func (f *Found) namesObject(r Record) error {
	if r.Made == nil {
		return nil
	}
	id := ""
	if b := r.Shot.Fault; b != nil {
		id = b.ID
	}
	data, err := f.experiment()
	if err != nil {
		return fmt.Errorf("which objects the experiment makes cannot be told: %w", err)
	}
	if version, kind := experiments.MadeBy(data, id); version != r.Made.APIVersion || kind != r.Made.Kind {
		return fmt.Errorf("the record names an object of %s %s, and fault %q of %s beside the journal makes none such: it is not touched", r.Made.APIVersion, r.Made.Kind, id, experimentFile)
	}
	return nil
}

// madeFolder reports whether the run made the folder: the run's nonce is in it, or nothing. Version 1 wrote no nonce: there the folder
// is one below the run's own.
func (f *Found) madeFolder(h *Header, dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder: it is not touched", dir)
	case h.V == 1:
		inside, err := f.inside(dir)
		if err == nil && !inside {
			err = fmt.Errorf("the folder %s is not below the run's own, and a journal of version 1 does not prove that the run made it: it is not touched", dir)
		}
		return err
	}
	if unwritten(dir) {
		return nil
	}
	return h.nonceIn(dir)
}

// unwritten reports whether nothing is in the folder, or a nonce file with nothing in it: the run was killed before it had written the nonce.
func unwritten(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != NonceFile {
		return err == nil && len(entries) == 0
	}
	info, err := entries[0].Info()
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// nonceIn refuses a folder without the run's nonce; one that is gone is no matter.
func (h *Header) nonceIn(dir string) error {
	nonce, err := regular.Read(filepath.Join(dir, NonceFile))
	if err == nil && h.Nonce != "" && string(nonce) == h.Nonce {
		return nil
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("the folder %s does not have the run's nonce in it: the run did not make it, and it is not touched", dir)
}

// inside reports whether dir, without links on the way, is below the run's folder.
func (f *Found) inside(dir string) (bool, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	own, err := filepath.Abs(filepath.Dir(f.path))
	if err == nil {
		own, err = filepath.EvalSymlinks(own)
	}
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(own, real)
	return err == nil && filepath.IsLocal(rel) && rel != ".", err
}

// madeCgroup refuses a cgroup that is not directly in one with the run's nonce in its name.
func (h *Header) madeCgroup(name string) error {
	own := path.Base(path.Dir(name)) == cgroupPrefix+h.Nonce && h.Nonce != "" && !strings.Contains(h.Nonce, "/")
	if name == "" || own && path.IsAbs(name) && path.Clean(name) == name {
		return nil
	}
	return fmt.Errorf("the cgroup %q is not in one that is named by the run's nonce: the run did not make it, and it is not touched", name)
}

// startedProcess refuses a process that the run did not start.
func (h *Header) startedProcess(p Process) error {
	marked := h.Nonce != "" && strings.HasPrefix(p.Mark, h.Nonce+"/")
	if h.V > 1 && (p.Mark != "" || p.Folder == "") && !marked {
		return fmt.Errorf("process %d is not said to carry the run's mark: it is not touched", p.PID)
	}
	if h.V > 1 && p.Folder != "" {
		if err := h.nonceIn(p.Folder); err != nil {
			return err
		}
	}
	if alive, err := p.Lives(); err == nil && alive && !p.carries(p.PID) {
		return fmt.Errorf("process %d does not carry the mark of the run (%s): it is not one of the run's, and it is not touched", p.PID, MarkEnv)
	}
	return nil
}
