// Command same says in what another commit and this tree give different answers: `make same OLD=COMMIT`. It builds the driver in a work
// tree of that commit and in this one, lets both run the same inputs, and compares what they gave. It is a tool for rebuilding, and
// judges nothing. Its one invariant: what it prints nothing of was compared, or counted on stderr as left out.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	exitDiffers = 1
	exitUsage   = 2
	exitBroken  = 3
)

func main() {
	var o options
	flag.StringVar(&o.old, "old", "", "the commit to compare with")
	flag.Uint64Var(&o.drills, "drills", 2000, "random drills")
	flag.Int64Var(&o.seeds, "seeds", 10, "seeds of each scenario")
	flag.BoolVar(&o.group, "group", false, "print what differs alike in many runs once, with its number")
	flag.Parse()
	if o.old == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "same: OLD is missing: make same OLD=COMMIT [DRILLS=2000] [SEEDS=10] [GROUP=1]")
		os.Exit(exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	n, err := run(ctx, o)
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "same:", err)
		os.Exit(exitUsage)
	case err != nil:
		fmt.Fprintln(os.Stderr, "same:", err)
		os.Exit(exitBroken)
	case n > 0:
		os.Exit(exitDiffers)
	}
}

type options struct {
	old    string
	drills uint64
	seeds  int64
	group  bool
}

var errUsage = errors.New("usage")

const (
	driverFolder = "internal/same/driver"
	cacheFolder  = "bin/same"
)

// own are the files of the driver that know a tree's internal calls.
var own = []string{driverFolder + "/adapter.go", driverFolder + "/random.go"}

// run compares, and counts what differs.
func run(ctx context.Context, o options) (n int, err error) {
	commit, err := git(ctx, "rev-parse", "--verify", "--quiet", o.old+"^{commit}")
	if err != nil {
		return 0, fmt.Errorf("%w: OLD=%s is no commit of this repository", errUsage, o.old)
	}
	commit = strings.TrimSpace(commit)
	temp, err := os.MkdirTemp("", "lockdrill-same-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	tree := filepath.Join(temp, "old")
	if _, err := git(ctx, "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return 0, err
	}
	defer func() {
		_, gone := git(context.WithoutCancel(ctx), "worktree", "remove", "--force", tree)
		err = errors.Join(err, gone)
	}()
	drivers, err := driversOf(ctx, commit)
	if err != nil {
		return 0, err
	}
	fresh, err := freshInputs(ctx, tree)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(cacheFolder, 0o755); err != nil {
		return 0, err
	}
	before := filepath.Join(cacheFolder, commit[:12]+"-"+digest(o, append(drivers, fresh)...)+".gz")
	if _, err := os.Stat(before); err != nil {
		if err := runOld(ctx, o, tree, drivers, fresh, before); err != nil {
			return 0, fmt.Errorf("%s: %w", o.old, err)
		}
	}
	if err := put(tree, fresh); err != nil {
		return 0, err
	}
	now := filepath.Join(temp, "new.gz")
	if err := drive(ctx, o, ".", tree, now); err != nil {
		return 0, fmt.Errorf("this tree: %w", err)
	}
	return compare(before, now, fresh, o.group)
}

// driversOf are the drivers to try in the tree of a commit, files by path: this tree's; with the adapter of that commit; with that of the
// first commit that has one, for a tree that is older. All that is not the adapter is this tree's.
func driversOf(ctx context.Context, commit string) ([]map[string][]byte, error) {
	mine := map[string][]byte{}
	files, err := filepath.Glob(driverFolder + "/*.go")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if mine[filepath.ToSlash(f)], err = os.ReadFile(f); err != nil {
			return nil, err
		}
	}
	added, err := git(ctx, "log", "--diff-filter=A", "--format=%H", "HEAD", "--", own[0])
	if err != nil {
		return nil, err
	}
	first := strings.Fields(added)
	slices.Reverse(first)
	all := []map[string][]byte{mine}
	for _, c := range append([]string{commit}, first...) {
		theirs := maps.Clone(mine)
		for _, f := range own {
			if text, err := git(ctx, "show", c+":"+f); err == nil {
				theirs[f] = []byte(text)
			}
		}
		all = append(all, theirs)
	}
	return all, nil
}

// freshInputs are the inputs that only this tree has, by path. Where both have a file, or both have a recorded run, it is the old tree's.
func freshInputs(ctx context.Context, tree string) (map[string][]byte, error) {
	listed, err := git(ctx, "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.yaml", "*.jsonl")
	if err != nil {
		return nil, err
	}
	fresh := map[string][]byte{}
	for _, f := range strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(tree, f)); err == nil {
			continue
		}
		data, err := os.ReadFile(f)
		switch {
		case errors.Is(err, os.ErrNotExist): // deleted, and not committed yet
		case err != nil:
			return nil, err
		default:
			fresh[f] = data
		}
	}
	return fresh, nil
}

// put writes files below a folder.
func put(folder string, files map[string][]byte) error {
	for name, data := range files {
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// digest names what the results of a commit depend on besides it.
func digest(o options, files ...map[string][]byte) string {
	h := sha256.New()
	fmt.Fprintln(h, o.drills, o.seeds, runtime.Version())
	for _, all := range files {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(all[name]))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:12]
}

// runOld runs the first driver that can be built in the old tree. That is before the fresh inputs are there: what is embedded is the
// tree's own.
func runOld(ctx context.Context, o options, tree string, drivers []map[string][]byte, fresh map[string][]byte, to string) error {
	var driver string
	var failed error
	for _, sources := range drivers {
		if err := errors.Join(os.RemoveAll(filepath.Join(tree, driverFolder)), put(tree, sources)); err != nil {
			return err
		}
		if driver, failed = build(ctx, tree, to); failed == nil || ctx.Err() != nil {
			break
		}
	}
	if failed != nil {
		return failed
	}
	defer os.Remove(driver)
	if err := put(tree, fresh); err != nil {
		return err
	}
	if err := start(ctx, o, driver, tree, to+".part"); err != nil {
		return err
	}
	return os.Rename(to+".part", to)
}

// drive builds the driver of a tree and runs it in the folder of the inputs.
func drive(ctx context.Context, o options, tree, inputs, to string) error {
	driver, err := build(ctx, tree, to)
	if err != nil {
		return err
	}
	return start(ctx, o, driver, inputs, to)
}

func build(ctx context.Context, tree, beside string) (driver string, err error) {
	driver, err = filepath.Abs(beside + ".driver")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", driver, "./"+driverFolder)
	cmd.Dir = tree
	return driver, told(cmd)
}

func start(ctx context.Context, o options, driver, inputs, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, driver, "-o", to, "-drills", fmt.Sprint(o.drills), "-seeds", fmt.Sprint(o.seeds))
	cmd.Dir = inputs
	return told(cmd)
}

func told(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", path.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	var status *exec.ExitError
	if errors.As(err, &status) {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(status.Stderr))
	}
	return string(out), err
}

// compare reads two results side by side, a run of each at a time, and counts what differs.
func compare(before, now string, fresh map[string][]byte, group bool) (n int, err error) {
	old, closeOld, err := results(before)
	if err != nil {
		return 0, err
	}
	defer closeOld()
	new, closeNew, err := results(now)
	if err != nil {
		return 0, err
	}
	defer closeNew()
	out := bufio.NewWriter(os.Stdout)
	tell, alike := printer(out), groups{first: map[[3]string]difference{}, count: map[[3]string]int{}}
	if group {
		tell = alike.add
	}
	c := newComparison(func(input string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(fresh)), func(f string) bool { return f == input || path.Dir(f) == input })
	}, func(d difference) { n++; tell(d) })
	for {
		var a, b result
		errOld, errNew := old.Decode(&a), new.Decode(&b)
		if errOld == io.EOF && errNew == io.EOF {
			break
		}
		if err := errors.Join(errOld, errNew); err != nil {
			return 0, fmt.Errorf("read results: %w", err)
		}
		if err := c.add(&a, &b); err != nil {
			return 0, err
		}
	}
	c.end()
	alike.write(out)
	for _, why := range slices.Sorted(maps.Keys(c.leftOut)) {
		fmt.Fprintf(os.Stderr, "same: %d runs left out: %s\n", c.leftOut[why], why)
	}
	return n, out.Flush()
}

func results(name string) (*json.Decoder, func() error, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	unpacked, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return json.NewDecoder(unpacked), f.Close, nil
}
