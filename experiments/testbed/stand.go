package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockdrill/lockdrill/experiments/undo"
)

// folderPrefix begins the name of every folder that the testbed makes, and so of every one that may be removed with what is in it.
const folderPrefix = "lockdrill-"

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
			removeMemory(sharedMemory(filepath.Join(r.Folder, databaseFolder)))
		}
	}
	if r.Folder == "" {
		return nil
	}
	if !filepath.IsAbs(r.Folder) || !strings.HasPrefix(filepath.Base(r.Folder), folderPrefix) {
		return fmt.Errorf("remove folder %s: its name does not begin with %s: it is not one of a run", r.Folder, folderPrefix)
	}
	return removeAll(r.Folder)
}

// removeAll removes a folder and verifies that it is gone.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove folder of a server: %w", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder of a server is still there: %s", dir)
	}
	return nil
}
