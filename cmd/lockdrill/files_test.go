package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// What is no regular file stays what it is: a device or a pipe of that name was replaced by a file, and so was a link.
func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	pipe, link, real := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "real")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	write(t, real, []byte(strings.Repeat("an earlier and longer text\n", 1000)))
	want := tryIn(t, dir, "judge", run, "-f", "md").stdout
	if got := tryIn(t, dir, "judge", run, "-f", "md", "-o", "link"); got.code != verdict.ExitPass || string(read(t, real)) != want {
		t.Errorf("through a link: %+v, and it holds\n%.300s", got, read(t, real))
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v, %v", info, err)
	}
	if got := tryIn(t, dir, "judge", run, "-f", "md", "-o", "pipe"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "a pipe that nobody reads") {
		t.Errorf("a pipe that nobody reads: %+v", got)
	}
	for _, args := range [][]string{{"judge", run, "--result-file", "pipe"}, {"run", "nobody", "--result-file", "pipe"}, {"run", "nobody", "--junit", "pipe"}} {
		if got := tryIn(t, dir, args...); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "a pipe that nobody reads") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is no pipe any more: %v, %v", info, err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if got := tryIn(t, dir, "judge", run, "--result-file", "pipe"); got.code != verdict.ExitPass {
		t.Errorf("%+v", got)
	}
	word := make([]byte, 100)
	n, _ := reader.Read(word)
	if got := string(word[:n]); got != "errorpass" {
		t.Errorf("the reader of a pipe got %q", got)
	}
}

// Where a file cannot be written, nothing of it stays, and nothing green of an earlier command. A limit on the size of files is what a
// full disk is: they can be made, and not written.
func TestAFullDiskLeavesNothingToRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	full := func(blocks string, args ...string) result {
		return finish(t, dir, exec.Command("sh", append([]string{"-c", "ulimit -f " + blocks + ` && exec "$0" "$@"`, built}, args...)...))
	}
	for _, before := range []string{"", "pass"} {
		for _, args := range [][]string{{"judge", run, "--result-file", "word"}, {"run", "nobody", "--result-file", "word"}, {"run", "nobody", "--junit", "word"}} {
			if before != "" {
				write(t, filepath.Join(dir, "word"), []byte(before))
			}
			if got := full("0", args...); got.code != verdict.ExitUsage || got.stderr != args[2]+" word: write: file too large\n" {
				t.Errorf("%v: %+v", args, got)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*word*")); len(left) > 0 {
				t.Errorf("%v over %q: left %q, %q", args, before, left, read(t, left[0]))
			}
		}
	}
	earlier := strings.Repeat("an earlier report\n", 100)
	write(t, filepath.Join(dir, "real"), []byte(earlier))
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ blocks, want string }{{"0", earlier}, {"1", ""}} { // nothing of it was written, or a part
		if got := full(c.blocks, "list", "-o", "link"); got.code == verdict.ExitPass || !strings.Contains(got.stderr, "file too large") {
			t.Errorf("%+v", got)
		}
		if got := string(read(t, filepath.Join(dir, "real"))); got != c.want {
			t.Errorf("a report of which %s blocks could be written: the file holds %.100q", c.blocks, got)
		}
	}
}

func TestOneFileIsNotForTwo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(".", filepath.Join(dir, "here")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--junit", "x", "--result-file", "./x"}, {"--junit", "x", "--metrics-file", "here/x"}} {
		got := tryIn(t, dir, append([]string{"run", "nobody"}, args...)...)
		if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "name the same file") {
			t.Errorf("%v: %+v", args, got)
		}
		if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
			t.Errorf("%v: the file was written", args)
		}
	}
}

// What a killed process has left of a report goes with the next judgement; what is young may have a writer, what is not ours an owner.
func TestUnfinishedReportsAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	old := time.Now().Add(-2 * deadAfter)
	for name, stays := range map[string]bool{".report.html.123": false, ".verdict.json.7": false, ".notes.md.123": true, ".report.md": true, ".report.md.x": true, ".junit.xml.9": true} {
		path := filepath.Join(run, name)
		write(t, path, []byte("half"))
		if !strings.HasSuffix(name, ".9") { // that one is being written
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
		if got := tryIn(t, dir, "judge", run); got.code != verdict.ExitPass {
			t.Fatalf("%+v", got)
		}
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it there: %t", name, err, stays)
		}
	}
}

// A verdict that cannot be written is no verdict, and the message says how it is seen all the same.
func TestAVerdictThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	_ = os.Remove(filepath.Join(run, verdictFile))
	if err := os.Mkdir(filepath.Join(run, verdictFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := tryIn(t, dir, "judge", run); got.code != verdict.ExitError || got.stdout != "" || !strings.Contains(got.stderr, "to see it now, judge a copy") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(run, fullReport())); err == nil {
		t.Error("there is a report without a verdict")
	}
}
