package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// undoMargin is added to max_run: opening, calibrating, reverting and cleaning up have limits of their own, and are within it.
const undoMargin = 3 * time.Minute

// openJournal starts the journal and the process that guards it, before the run puts up anything.
func (d *Drill) openJournal() (err error) {
	host, _ := os.Hostname() // a label
	now := time.Now().UTC()
	d.journal, err = undo.Create(filepath.Join(d.dir, undo.File), undo.Header{
		Run: d.run, Experiment: d.e.Name, Targets: d.targets, Runner: undo.Find(os.Getpid()), Hostname: host,
		Opened: now, Deadline: now.Add(d.e.Limits.MaxRun + undoMargin),
	})
	if err != nil {
		return err
	}
	var how []string
	if d.o.Trust {
		how = append(how, "--trust")
	}
	if d.cluster != nil && d.cluster.Kubeconfig != "" { // named by this run, and not by its journal alone
		how = append(how, "--kubeconfig", d.cluster.Kubeconfig)
	}
	d.watchdog, err = startWatchdog(d.dir, d.o.Notify, how...)
	return err
}

// conclude ends the journal of a run that came to a drill. broke is why the drill has no end of its own, such as a full disk: then the
// history does not say what is left, and the end must. A journal that was lost on the way is such an end.
func (d *Drill) conclude(broke error) (*Ending, error) {
	left := d.endJournal()
	if broke == nil {
		broke = left.Lost
	}
	switch {
	case broke == nil:
		return left, nil
	case left.Left():
		return left, &Error{verdict.ExitDirty, fmt.Errorf("%s: %w; that was the end of the drill, not everything is undone, and there is no verdict", d.e.Name, broke)}
	}
	return left, fmt.Errorf("%s: %w; that was the end of the drill, everything is undone, and there is no verdict", d.e.Name, broke)
}

// Ending is what the undo journal of a drill says when its runner and its watchdog are done.
type Ending struct {
	Dir     string // of the run
	Journal undo.Content
	Lost    error        // the journal was lost while the drill went on, or cannot be read: what is left is said from memory
	Memory  []undo.Entry // then: what the runner has not undone
}

// Left reports whether not everything is undone, for all that is known.
func (e *Ending) Left() bool {
	if e.Lost != nil {
		return len(e.Memory) > 0
	}
	return !e.Journal.Closed
}

// Open lists what is not undone.
func (e *Ending) Open() []undo.Entry {
	if e.Lost != nil {
		return e.Memory
	}
	return e.Journal.Open()
}

// ByWatchdog reports whether the watchdog had to undo anything.
func (e *Ending) ByWatchdog() bool {
	return slices.ContainsFunc(e.Journal.Entries, func(e undo.Entry) bool { return e.By == byWatchdog })
}

// endJournal waits for the watchdog, which undoes what the run could not.
func (d *Drill) endJournal() *Ending {
	lost := d.journal.Check()
	d.watchdog.Close()
	c, err := undo.Read(filepath.Join(d.dir, undo.File))
	if lost = cmp.Or(lost, err); lost != nil {
		return &Ending{Dir: d.dir, Lost: lost, Memory: d.journal.Open()}
	}
	return &Ending{Dir: d.dir, Journal: c}
}

// dropJournal ends the journal of a run that did not come to a drill; where all is undone, nothing of it stays.
func (d *Drill) dropJournal() error {
	if d.journal == nil {
		return nil
	}
	err := d.journal.Close()
	d.watchdog.Close() // first: it may not have opened the journal yet
	if err == nil {
		err = os.Remove(filepath.Join(d.dir, undo.File))
	}
	return err
}

// targets names what the run may change and others may use as well. What a run puts up itself is shared with nobody. cluster is nil where
// the run works in no cluster.
func targets(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) []string {
	var all []string
	for _, r := range externals(e) {
		for _, server := range r.Servers() {
			if path, _, socket := experiments.Socket(server); socket {
				all = append(all, "redis unix:"+path)
			} else if u, err := url.Parse(server); err == nil {
				all = append(all, "redis://"+net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), "6379"))) // a fault of the store strikes every database
			}
		}
	}
	if s := e.Store; s != nil && s.URL != "" {
		all = append(all, strings.ToLower(s.Target()))
	}
	if e.Proxy.Mode == experiments.ProxyExternal {
		if u, err := url.Parse(e.Proxy.URL); err == nil {
			all = append(all, "toxiproxy "+u.Scheme+"://"+strings.ToLower(u.Host))
		}
	}
	if cluster != nil {
		all = append(all, namespaceTargets(ctx, e.InCluster(), cluster)...)
	}
	if e.System.Processes != nil {
		all = append(all, e.System.Processes.Target())
	}
	return all
}

// guardTargets refuses a run whose target another run has not given back, and names the runs in runs/ that were killed and left
// something. own are the run's targets, parent is where its own folder will be.
func guardTargets(notify func(string), e *experiments.Experiment, own []string, parent string) error {
	for _, dir := range Journals(parent, RunsFolder) {
		c, err := undo.Read(filepath.Join(dir, undo.File))
		if err != nil { // gone meanwhile, or no journal: recover says what is wrong with it
			continue
		}
		if c.Closed || len(c.Open()) == 0 && !Runs(c.Header) {
			continue
		}
		shared := slices.IndexFunc(c.Header.Targets, func(t string) bool { return slices.Contains(own, t) })
		since := c.Header.Opened.Format(time.RFC3339)
		switch {
		case shared >= 0 && Runs(c.Header):
			return refused(e.Name, Guard{Name: targetGuardName, Refuses: true, Says: fmt.Sprintf("%s is in use by the run in %s since %s (process %d)",
				c.Header.Targets[shared], dir, since, c.Header.Runner.PID)})
		case shared >= 0:
			return refused(e.Name, Guard{Name: targetGuardName, Refuses: true, Says: fmt.Sprintf("the run in %s was killed and has not given %s back since %s; first: lockdrill recover %s",
				dir, c.Header.Targets[shared], since, dir)})
		case !Runs(c.Header) && filepath.Dir(dir) == RunsFolder:
			notify(fmt.Sprintf("lockdrill: the run in %s was killed and may have left something; see: lockdrill recover %s", dir, dir))
		}
	}
	return nil
}

// Runs says whether the runner of a journal is at work. Where it cannot be told, it is not.
func Runs(h undo.Header) bool {
	alive, err := h.Runner.Lives()
	return err == nil && alive
}

// WithoutJournal lists the folders of runs that did not come to their end and have no journal.
func WithoutJournal(parent string) []string {
	var dirs []string
	entries, _ := os.ReadDir(parent) // none: no runs
	for _, entry := range entries {
		dir := filepath.Join(parent, entry.Name())
		_, err := os.Lstat(filepath.Join(dir, undo.File))
		if finished, unread := Finished(dir); entry.IsDir() && errors.Is(err, fs.ErrNotExist) && unread == nil && !finished {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Journals lists the folders below the given ones that have a journal, each once: links to runs, such as latest, are no runs.
func Journals(parents ...string) []string {
	var dirs []string
	seen := map[string]bool{}
	for _, parent := range parents {
		abs, err := filepath.Abs(parent)
		if err != nil || seen[abs] {
			continue
		}
		seen[abs] = true
		entries, _ := os.ReadDir(parent) // none: no runs
		for _, entry := range entries {
			if _, err := os.Stat(filepath.Join(parent, entry.Name(), undo.File)); entry.IsDir() && !errors.Is(err, fs.ErrNotExist) && err == nil {
				dirs = append(dirs, filepath.Join(parent, entry.Name()))
			}
		}
	}
	return dirs
}
