package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/reports"
)

// underWay is the folder of the drill that is under way, for whoever leaves it at once. It is safe for concurrent use.
type underWay struct {
	mu  sync.Mutex
	dir string
}

func (u *underWay) set(dir string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dir = dir
}

// printLeft names what the drill has changed and not undone, as its journal says on the disk.
func (u *underWay) printLeft(w io.Writer) {
	u.mu.Lock()
	dir := u.dir
	u.mu.Unlock()
	if dir == "" {
		return
	}
	c, err := undo.Read(filepath.Join(dir, undo.File))
	if err != nil {
		return // nothing was written down, so nothing was changed
	}
	for _, e := range c.Open() {
		printChange(w, e.Record, e.Why)
	}
	if len(c.Open()) > 0 {
		fmt.Fprintf(w, "  lockdrill recover %s says whether all of it is undone\n", dir)
	}
}

// printEnding says what the undo journal of a drill that is over says.
func printEnding(w io.Writer, e *drill.Ending) {
	path := filepath.Join(e.Dir, undo.File)
	switch {
	case e.Lost != nil && !e.Left():
		fmt.Fprintf(w, "lockdrill: %v; what was in effect was undone from memory, and that was verified\n", e.Lost)
	case e.Lost != nil:
		fmt.Fprintf(w, "lockdrill: %v; not everything is undone:\n", e.Lost)
		for _, left := range e.Open() {
			printChange(w, left.Record, left.Why)
		}
	case e.Journal.Closed && e.ByWatchdog():
		fmt.Fprintf(w, "lockdrill: the watchdog undid what the run could not undo in time: nothing is left (%s)\n", path)
	case !e.Journal.Closed:
		fmt.Fprintf(w, "lockdrill: not everything is undone; try again with: lockdrill recover %s\n", e.Dir)
		for _, left := range e.Open() {
			printChange(w, left.Record, left.Why)
		}
	}
}

// recordUndone writes down what was undone, and what was not.
func recordUndone(w io.Writer, r undo.Report, err error) {
	for _, o := range r.Outcomes {
		if errors.As(o.Err, new(*undo.RefusedError)) {
			fmt.Fprintln(w, reports.HarmlessLine(fmt.Sprintf("  NOT UNDONE  %s: refused: %v", o.Record, o.Err)))
		} else if o.Err != nil {
			printChange(w, o.Record, o.Err.Error())
		} else {
			fmt.Fprintf(w, "  undone      %s (it was: %s)\n", o.Record, o.State)
		}
	}
	for _, o := range r.Unasked {
		fmt.Fprintln(w, reports.HarmlessLine(fmt.Sprintf("  undone by its journal, and not asked after  %s: %v", o.Record, o.Err)))
	}
	if err != nil {
		fmt.Fprintf(w, "%v\n", err)
	}
}

// printChange names a change that is not undone, and how a person undoes it.
func printChange(w io.Writer, r undo.Record, why string) {
	if why == "" {
		why = "the undoing was not finished"
	}
	fmt.Fprintln(w, reports.HarmlessLine(fmt.Sprintf("  NOT UNDONE  %s: %s", r, why)))
	for _, command := range undo.ByHand(r) {
		fmt.Fprintf(w, "    by hand:  %s\n", command)
	}
}
