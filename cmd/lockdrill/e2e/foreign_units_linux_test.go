package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// somebodysUnit is a unit of systemd that restarts whatever dies.
const somebodysUnit = `[Unit]
DefaultDependencies=no
StartLimitIntervalSec=0
[Service]
ExecStart=%s %s/testdata/elector.py --redis %s --name %%i --key sched:leader --ttl 1000 --renew 300 --poll 100
Restart=always
RestartSec=300ms
`

// startUnits has a systemd of the test's own, an instance as of a user, run three electors as units, in real cgroups. It has no units but
// these: not one of the machine's is started. The folder of its cgroups is returned.
func startUnits(t *testing.T, port string) (cgroup string) {
	t.Helper()
	const systemd = "/usr/lib/systemd/systemd"
	python := witnesstest.Python(t)
	if _, err := os.Stat(systemd); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("continuous integration must drill units of systemd: %v", err)
	} else if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: no systemd: %v", err)
	}
	trees, cgroup, over := ownGroups(t)
	t.Cleanup(func() { endGroups(t, trees) })
	dir := t.TempDir()
	folder, err := os.Getwd()
	must(t, err)
	for name, text := range map[string]string{
		"units/elector@.service": fmt.Sprintf(somebodysUnit, python, folder, port),
		"units/drill.target":     "[Unit]\nDefaultDependencies=no\nWants=elector@sched-a.service elector@sched-b.service elector@sched-c.service\n",
		"generators/.none":       "", "run/.none": "",
	} {
		path := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	// It wants to see that the machine was booted with systemd: a /run that nobody else sees says so.
	script := `for tree in $TREES; do echo $$ > $tree/cgroup.procs || exit 1; done
mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && `
	if over {
		script += "mount -t cgroup2 none /sys/fs/cgroup && "
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script+`exec "$0" --user --unit=drill.target`, systemd)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TREES=" + strings.Join(trees, " "), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"),
		"SYSTEMD_UNIT_PATH=" + filepath.Join(dir, "units"), "SYSTEMD_GENERATOR_PATH=" + filepath.Join(dir, "generators"),
		"SYSTEMD_ENVIRONMENT_GENERATOR_PATH=" + filepath.Join(dir, "generators")}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, "the three units", func() bool { return len(processes("elector.py", port)) == 3 })
	return cgroup
}

// ownGroups makes a cgroup of the test's own, in each tree that is there; with cgroup v1 systemd has one of its own beside that of v2. Where
// those are closed, as in most containers, the tree of v2 is mounted anew: over says so.
func ownGroups(t *testing.T) (trees []string, cgroup string, over bool) {
	t.Helper()
	switch {
	case os.Geteuid() != 0 && os.Getenv("CI") == "true":
		t.Fatal("continuous integration must drill units of systemd, as root")
	case os.Geteuid() != 0:
		t.Skip("SKIPPED, NOT TESTED: units of systemd need root")
	}
	cgroup = "lockdrill-test-" + strconv.Itoa(os.Getpid())
	var closed error
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil {
			continue
		}
		tree := filepath.Join(mount, cgroup)
		if err := os.Mkdir(tree, 0o755); err != nil {
			closed = err
			continue
		}
		trees = append(trees, tree)
	}
	if closed == nil && len(trees) > 0 {
		return trees, cgroup, false
	}
	endGroups(t, trees)
	mount := t.TempDir()
	err := syscall.Mount("none", mount, "cgroup2", 0, "")
	if err == nil {
		t.Cleanup(func() { _ = syscall.Unmount(mount, 0) })
		err = os.Mkdir(filepath.Join(mount, cgroup), 0o755)
	}
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("continuous integration must drill units of systemd, in cgroups: %v", errors.Join(closed, err))
	case err != nil:
		t.Skipf("SKIPPED, NOT TESTED: units of systemd need cgroups, and the kernel lets this process make none: %v", errors.Join(closed, err))
	}
	return []string{filepath.Join(mount, cgroup)}, cgroup, true
}

// endGroups ends whatever is in cgroups, and removes them.
func endGroups(t *testing.T, trees []string) {
	for _, tree := range trees {
		until(t, "the end of "+tree, func() bool {
			var groups []string
			_ = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					groups = append([]string{path}, groups...)
				}
				return nil
			})
			for _, group := range groups {
				members, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
				for _, member := range strings.Fields(string(members)) {
					if pid, err := strconv.Atoi(member); err == nil {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				_ = os.Remove(group) // once it is empty
			}
			return len(groups) == 0
		})
	}
}

// The replicas are units of a real systemd, which starts again what is killed; or whatever is in cgroups of a name.
func TestSomebodysUnitsAreDrilled(t *testing.T) {
	besideDrills(t)
	addr := redistest.Start(t)
	_, port, _ := strings.Cut(addr, ":")
	cgroup, dir := startUnits(t, port), t.TempDir()
	was := fmt.Sprintf(`{match: 'elector\.py --redis %s --name (?P<name>\S+)'}`, port)
	for _, c := range []struct{ way, command string }{
		{"{unit: 'elector@{name}.service'}", "run"},
		{"{cgroup: '" + cgroup + "/app.slice/app-elector.slice/elector@{name}.service'}", "plan"},
	} {
		yaml := edit(t, fmt.Sprintf(foreignDrill, port), was, c.way, "count: 3, every: settled", "count: 1")
		write(t, filepath.Join(dir, "foreign.yaml"), []byte(yaml))
		got := tryIn(t, dir, append([]string{c.command, "foreign.yaml"}, foreignConsent...)...)
		if got.code != verdict.ExitPass {
			t.Errorf("%s: %+v", c.way, got)
		}
		if c.command == "run" {
			continue
		}
		for _, name := range []string{"sched-a", "sched-b", "sched-c"} {
			if strings.Count(got.stdout, name) == 0 {
				t.Errorf("%s: plan does not show %s:\n%s", c.way, name, got.stdout)
			}
		}
	}
}
