package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/reports"
)

// undoMargin is added to max_run: opening, calibrating, reverting and cleaning up have limits of their own, and are within it.
const undoMargin = 3 * time.Minute

// openJournal starts the journal and the process that guards it, before the run puts up anything.
func (d *drill) openJournal(stderr io.Writer) (err error) {
	host, _ := os.Hostname() // a label
	now := time.Now().UTC()
	d.journal, err = undo.Create(filepath.Join(d.dir, undo.File), undo.Header{
		Run: d.run, Experiment: d.e.Name, Targets: targets(d.e), Runner: undo.Find(os.Getpid()), Hostname: host,
		Opened: now, Deadline: now.Add(d.e.Limits.MaxRun + undoMargin),
	})
	if err != nil {
		return err
	}
	d.watchdog, err = startWatchdog(d.dir, stderr)
	return err
}

// conclude ends the journal of a run that came to a drill. broke is why the drill has no end of its own, such as a full disk: then the
// history does not say what is left, and the status must.
func (d *drill) conclude(stderr io.Writer, broke error) error {
	left := d.endJournal(stderr)
	switch {
	case broke == nil:
		return nil
	case left:
		return &exitError{code: verdict.ExitDirty, err: fmt.Errorf("%s: %w; that was the end of the drill, not everything is undone, and there is no verdict", d.e.Name, broke)}
	}
	return fmt.Errorf("%s: %w; that was the end of the drill, everything is undone, and there is no verdict", d.e.Name, broke)
}

// endJournal waits for the watchdog, which undoes what the run could not, and says what is left even so.
func (d *drill) endJournal(stderr io.Writer) (left bool) {
	d.watchdog.Close()
	path := filepath.Join(d.dir, undo.File)
	c, err := undo.Read(path)
	switch open := c.Open(); {
	case err != nil:
		fmt.Fprintf(stderr, "lockdrill: %v\n", err)
	case c.Closed && slices.ContainsFunc(c.Entries, func(e undo.Entry) bool { return e.By == byWatchdog }):
		fmt.Fprintf(stderr, "lockdrill: what the run could not undo, its watchdog has undone since: nothing is left (%s)\n", path)
	case !c.Closed:
		fmt.Fprintf(stderr, "lockdrill: not everything is undone; try again with: lockdrill recover %s\n", d.dir)
		for _, e := range open {
			tellLeft(stderr, e.Record, e.Why)
		}
	}
	return err != nil || !c.Closed
}

// dropJournal ends the journal of a run that did not come to a drill; where all is undone, nothing of it stays.
func (d *drill) dropJournal() error {
	if d.journal == nil {
		return nil
	}
	err := d.journal.Close()
	if err == nil {
		err = os.Remove(filepath.Join(d.dir, undo.File))
	}
	d.watchdog.Close()
	return err
}

// tellLeft names a change that is not undone, and how a person undoes it.
func tellLeft(w io.Writer, r undo.Record, why string) {
	if why == "" {
		why = "the undoing was not finished"
	}
	fmt.Fprintln(w, reports.HarmlessLine(fmt.Sprintf("  NOT UNDONE  %s: %s", r, why)))
	for _, command := range undo.ByHand(r) {
		fmt.Fprintf(w, "    by hand:  %s\n", command)
	}
}

// targets names what the run may change and others may use as well. What a run puts up itself is shared with nobody.
func targets(e *experiments.Experiment) []string {
	var all []string
	for _, r := range []experiments.Redis{e.Redis, e.Ledger.AsRedis()} {
		if u, err := url.Parse(r.URL); err == nil && r.Mode == experiments.RedisExternal {
			port := u.Port()
			if port == "" {
				port = "6379"
			}
			all = append(all, "redis://"+net.JoinHostPort(strings.ToLower(u.Hostname()), port)) // a fault of the store strikes every database
		}
	}
	if e.Proxy.Mode == experiments.ProxyExternal {
		if u, err := url.Parse(e.Proxy.URL); err == nil {
			all = append(all, "toxiproxy "+u.Scheme+"://"+strings.ToLower(u.Host))
		}
	}
	if e.Kubernetes != nil {
		all = append(all, clusterTarget(e.Kubernetes))
	}
	return all
}

// guardTargets refuses a run whose target another run has not given back, and names the runs in runs/ that were killed and left
// something. parent is where the run's own folder will be.
func guardTargets(stderr io.Writer, e *experiments.Experiment, parent string) error {
	own := targets(e)
	for _, dir := range journals(parent, runsFolder) {
		c, err := undo.Read(filepath.Join(dir, undo.File))
		if err != nil { // gone meanwhile, or no journal: recover says what is wrong with it
			continue
		}
		if c.Closed || len(c.Open()) == 0 && !runs(c.Header) {
			continue
		}
		shared := slices.IndexFunc(c.Header.Targets, func(t string) bool { return slices.Contains(own, t) })
		since := c.Header.Opened.Format(time.RFC3339)
		switch {
		case shared >= 0 && runs(c.Header):
			return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: %s is in use by the run in %s since %s (process %d)",
				e.Name, c.Header.Targets[shared], dir, since, c.Header.Runner.PID)}
		case shared >= 0:
			return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: the run in %s was killed and has not given %s back since %s; first: lockdrill recover %s",
				e.Name, dir, c.Header.Targets[shared], since, dir)}
		case !runs(c.Header) && filepath.Dir(dir) == runsFolder:
			fmt.Fprintf(stderr, "lockdrill: the run in %s was killed and may have left something; see: lockdrill recover %s\n", dir, dir)
		}
	}
	return nil
}

// runs says whether the runner of a journal is at work. Where it cannot be told, it is not.
func runs(h undo.Header) bool {
	alive, err := h.Runner.Lives()
	return err == nil && alive
}

// journals lists the folders below the given ones that have a journal, each once: links to runs, such as latest, are no runs.
func journals(parents ...string) []string {
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
