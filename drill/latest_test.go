package drill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// The link to the latest run leads to it, or it is said that it does not: a folder that stands in its place stays as it is.
func TestALinkThatCannotBeSetIsTold(t *testing.T) {
	base := t.TempDir()
	var said []string
	d := &Drill{dir: filepath.Join(base, "run-1"), o: Options{Notify: func(line string) { said = append(said, line) }}}
	link := filepath.Join(base, undo.Latest)
	d.linkLatest()
	if to, err := os.Readlink(link); err != nil || to != "run-1" || len(said) > 0 {
		t.Errorf("it leads to %q (%v), said %q", to, err, said)
	}
	testkit.Must(t, os.Remove(link))
	testkit.Must(t, os.MkdirAll(filepath.Join(link, "theirs"), 0o755))
	d.linkLatest()
	if len(said) != 1 || !strings.Contains(said[0], link+" does not lead to this run") || !strings.Contains(said[0], d.dir) {
		t.Errorf("said %q", said)
	}
	if left, _ := filepath.Glob(filepath.Join(base, "*.new")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// No run has the name of the link.
func TestLatestIsNoNameOfARun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), undo.Latest)
	d := &Drill{o: Options{Out: dir + "/"}}
	if err := d.openFolder(); err == nil || !strings.Contains(err.Error(), "latest is no name of a run") {
		t.Errorf("a run named latest: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("its folder was made")
	}
}
