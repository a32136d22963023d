package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/spawn"
)

// FolderPrefix begins the name of every folder that a run makes, and so of every one that may be removed with what is in it.
const FolderPrefix = "lockdrill-"

// DatabaseFolder is where a server that forks keeps its data, below its own folder.
const DatabaseFolder = "data"

// EndStand undoes a record of a replica or of a spawned server, from any process of this host: it is killed with all that it has
// started, also where it is dead itself, and its folder removed.
func EndStand(ctx context.Context, r undo.Record) error {
	if err := undo.EndCgroup(ctx, r.Cgroup); err != nil {
		return err
	}
	if r.Process != nil {
		if err := r.Process.End(ctx); err != nil {
			return err
		}
		if r.Folder != "" && r.Process.Forks != "" {
			spawn.RemoveMemory(SharedMemory(filepath.Join(r.Folder, DatabaseFolder)))
		}
	}
	if r.Folder == "" {
		return nil
	}
	if !filepath.IsAbs(r.Folder) || !strings.HasPrefix(filepath.Base(r.Folder), FolderPrefix) {
		return fmt.Errorf("remove folder %s: its name does not begin with %s: it is not one of a run", r.Folder, FolderPrefix)
	}
	return removeAll(r.Folder)
}

// SharedMemory is the number of the segment that a PostgreSQL says it has; 0 = none.
func SharedMemory(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 7 {
		return 0
	}
	fields := strings.Fields(lines[6]) // key, number
	if len(fields) != 2 {
		return 0
	}
	n, _ := strconv.Atoi(fields[1]) // 0 = none
	return n
}
