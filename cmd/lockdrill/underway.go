package main

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/lockdrill/lockdrill/experiments/undo"
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

// tell names what the drill has changed and not undone, as its journal says on the disk.
func (u *underWay) tell(w io.Writer) {
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
		tellLeft(w, e.Record, e.Why)
	}
	if len(c.Open()) > 0 {
		fmt.Fprintf(w, "  lockdrill recover %s says whether all of it is undone\n", dir)
	}
}
