package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// enter runs a command in a root folder, with the job's folders at their own paths, and processes of its own.
const enter = `set -eu
root=$1 user=$2 dir=$3 fake=$4 inside=$PATH; shift 4
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin # of this machine
mkdir -p "$root/proc" "$root/dev" "$root$dir" "$root$fake"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$dir" "$root$dir"
mount --bind "$fake" "$root$fake"
here='export PATH="$1"; cd "$2" && shift 2 && exec "$@"'
exec chroot --userspec="$user" "$root" /bin/sh -c "$here" sh "$inside" "$dir" "$@"`

// bareDebian copies the files of Debian's essential packages from this machine's own: no Go, no Redis, no apt, no curl.
const bareDebian = `set -eu
needed=$(dpkg-query -W -f '${Essential} ${Package}\n' | sed -n 's/^yes //p')
apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $needed |
  grep '^[a-z0-9]' | sort -u | while read -r p; do dpkg -L "$p" 2>/dev/null || :; done |
  sed -E 's#^/(bin|sbin|lib|lib64)/#/usr/\1/#' | sort -u | while read -r f; do [ ! -e "$f" ] || echo "$f"; done >"$1.list"
tar --no-recursion -C / -T "$1.list" -cf - 2>/dev/null | tar -C "$1" -xf -
mkdir -p -m 1777 "$1/tmp"
rm "$1.list"`

// only is the one file of a release that a pattern names.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// Each exported step drills, as it stands, where there is nothing but what its system gives: a Debian without Go, lockdrill and Redis
// for three, lockdrill's own image, as its user, for two.
func TestCIStepsDrillInABareDebian(t *testing.T) {
	release := os.Getenv("LOCKDRILL_RELEASE")
	if release == "" {
		t.Skip("SKIPPED, NOT TESTED: LOCKDRILL_RELEASE names no release; `make release-check` makes one and tests it")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can enter another root folder")
	}
	if _, err := exec.LookPath("apt-cache"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: this is no Debian")
	}
	debian, image := t.TempDir(), t.TempDir()
	must(t, debian, "", "sh", "-c", bareDebian, "bare", debian)
	must(t, image, "", "sh", "-c", `tar -xf "$1" && for layer in *.tar.gz; do tar -xzf "$layer"; done`, "unpack", only(t, filepath.Join(release, "lockdrill-*-image-debug-amd64.tar")))
	must(t, image, "", "chmod", "755", ".")
	archive := only(t, filepath.Join(release, "lockdrill-*-linux-amd64.tar.gz"))
	type step struct{ system, approve string }
	var steps []step
	for _, system := range deploy.CISystems() {
		steps = append(steps, step{system: system})
		if asked[system] != nil {
			steps = append(steps, step{system, "production"})
		}
	}
	made := reusable(t)
	for path := range made {
		steps = append(steps, step{system: path})
	}
	for _, s := range steps {
		t.Run(strings.TrimSpace(s.system+" "+s.approve), func(t *testing.T) {
			system, act := s.system, systems[s.system]
			if s.approve != "" {
				act = asked[system]
			}
			j := newJob(t)
			text, reused := made[system]
			if reused {
				sum := must(t, j.fake, "", "sha256sum", archive)
				act = func(t *testing.T, j *job, text []byte) int {
					return callers[system](t, j, text, map[string]string{"archive": filepath.Join(j.fake, "lockdrill.tar.gz"), "sha256": sum[:64]})
				}
			} else {
				var err error
				if text, err = deploy.CI(system, deploy.CIOptions{Experiment: "first-drill", Approve: s.approve}); err != nil {
					t.Fatal(err)
				}
			}
			root, user, path := debian, "0:0", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
			if system == "tekton" || system == "argo-rollouts" {
				root, user, path = image, "65532:65532", "/:/bin"
			} else {
				must(t, j.fake, "", "cp", archive, filepath.Join(j.fake, "lockdrill.tar.gz"))
			}
			for _, dir := range []string{j.dir, j.fake} {
				testkit.Must(t, os.Chmod(dir, 0o777))
			}
			j.enter = []string{"unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-c", enter, "enter", root, user, j.dir, j.fake}
			j.env = []string{"PATH=" + path, "HOME=" + j.dir, "LOCKDRILL=" + filepath.Join(j.fake, "lockdrill.tar.gz")}
			// On a machine that is overloaded a drill may have seen too little to say: the step has run it to its verdict all the same.
			if got := act(t, j, text); got != verdict.ExitPass && got != verdict.ExitInconclusive {
				t.Errorf("the job ends with %d", got)
			}
			verdicts, _ := filepath.Glob(filepath.Join(j.dir, j.kept, "attempt-1", "verdict.json"))
			deeper, _ := filepath.Glob(filepath.Join(j.dir, j.kept, "*", "attempt-1", "verdict.json"))
			if len(verdicts)+len(deeper) != 1 {
				t.Errorf("kept are %q and %q", verdicts, deeper)
			}
		})
	}
}
