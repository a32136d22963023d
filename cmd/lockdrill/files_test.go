package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
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
	must(t, syscall.Mkfifo(pipe, 0o600))
	must(t, os.Symlink("real", link))
	write(t, real, []byte(strings.Repeat("an earlier and longer text\n", 1000)))
	want := tryIn(t, dir, "judge", run, "-f", "md").stdout
	if got := tryIn(t, dir, "judge", run, "-f", "md", "-o", "link"); got.code != verdict.ExitPass || string(read(t, real)) != want {
		t.Errorf("through a link: %+v, and it holds\n%.300s", got, read(t, real))
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v, %v", info, err)
	}
	tryIn(t, dir, "judge", run, "-f", "md", "-o", "pipe").ends(t, verdict.ExitUsage, "a pipe that nobody reads")
	for _, args := range [][]string{{"judge", run, "--result-file", "pipe"}, {"run", "nobody", "--result-file", "pipe"}, {"run", "nobody", "--junit", "pipe"}} {
		if got := tryIn(t, dir, args...); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "a pipe that nobody reads") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is no pipe any more: %v, %v", info, err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer reader.Close()
	tryIn(t, dir, "judge", run, "--result-file", "pipe").ends(t, verdict.ExitPass)
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
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	for _, c := range []struct{ blocks, want string }{{"0", earlier}, {"1", ""}} { // nothing of it was written, or a part
		if got := full(c.blocks, "list", "-o", "link"); got.code == verdict.ExitPass || !strings.Contains(got.stderr, "file too large") {
			t.Errorf("%+v", got)
		}
		if got := string(read(t, filepath.Join(dir, "real"))); got != c.want {
			t.Errorf("a report of which %s blocks could be written: the file holds %.100q", c.blocks, got)
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
			must(t, os.Chtimes(path, old, old))
		}
		tryIn(t, dir, "judge", run).ends(t, verdict.ExitPass)
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
	must(t, os.Mkdir(filepath.Join(run, verdictFile), 0o755))
	if got := tryIn(t, dir, "judge", run); got.code != verdict.ExitError || got.stdout != "" || !strings.Contains(got.stderr, "to see it now, judge a copy") {
		t.Errorf("%+v", got)
	}
	isGone(t, filepath.Join(run, fullReport()))
}

// changeHistory writes the history of a run as somebody else might have recorded it: nothing that is judged is another.
func changeHistory(t *testing.T, run string) {
	t.Helper()
	path := filepath.Join(run, historyFile)
	was := read(t, path)
	now := bytes.Replace(was, []byte(`"samples":1`), []byte(`"samples":2`), 1)
	if bytes.Equal(was, now) {
		t.Fatal("nothing was changed")
	}
	write(t, path, now)
}

// A verdict names the bytes that it was made from. Where others lie beside it, each command that reads the run says so.
func TestAVerdictOfAnotherHistoryIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	recordedRun(t, dir, "fail")
	if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || got.stderr != "" {
		t.Fatalf("judge: %+v", got)
	}
	j := judgementIn(t, run)
	digest := func(name string) string {
		return fmt.Sprintf("sha256:%x", sha256.Sum256(read(t, filepath.Join(run, name))))
	}
	if want := (verdict.Sources{Experiment: digest(experimentFile), History: digest(historyFile)}); j.Sources == nil || *j.Sources != want {
		t.Fatalf("sources %+v, want %+v", j.Sources, want)
	}
	commands := []string{"compare pass-1 fail --allow-different all", "tune --from pass-1 --lock job --jitter 5ms"}
	says := "runs/pass-1/verdict.json does not belong to the history.jsonl beside it"
	for _, args := range commands {
		if got := tryIn(t, dir, strings.Fields(args)...); strings.Contains(got.stderr, "verdict.json") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	changeHistory(t, run)
	for _, args := range append(commands, "judge pass-1") {
		if got := tryIn(t, dir, strings.Fields(args)...); strings.Count(got.stderr, says) != 1 {
			t.Errorf("%s of a changed history: %+v", args, got)
		}
	}
	if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || got.stderr != "" {
		t.Errorf("judged again: %+v", got)
	}
	for doc, says := range map[string]string{`{"run": {}, "schemaVersion": 1}`: "does not say from which history it was made", `[]`: "is no verdict of lockdrill"} {
		write(t, filepath.Join(run, verdictFile), []byte(doc))
		if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", doc, got)
		}
	}
}

// Where a history is refused, no verdict and no report of an earlier one stays that could be taken for it.
func TestARefusedHistoryHasNoVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	tryIn(t, dir, "judge", "pass-1")
	kept := read(t, filepath.Join(run, verdictFile))
	history := read(t, filepath.Join(run, historyFile))
	write(t, filepath.Join(run, historyFile), append(history, "{}\n{}\n"...))
	got := tryIn(t, dir, "judge", "pass-1", "--result-file", "word")
	got.refused(t, "runs/pass-1 has no verdict now")
	for _, name := range append(reportFiles(), verdictFile) {
		isGone(t, filepath.Join(run, name))
	}
	if word := string(read(t, filepath.Join(dir, "word"))); word != "usage" {
		t.Errorf("the result is %q", word)
	}
	if old := read(t, filepath.Join(run, verdictFile+aside)); !bytes.Equal(old, kept) {
		t.Error("the earlier verdict is not kept")
	}
	write(t, filepath.Join(run, historyFile), history)
	if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || !bytes.Equal(read(t, filepath.Join(run, verdictFile)), kept) {
		t.Errorf("judged again: %+v", got)
	}
	other := t.TempDir() // what is no run's folder is nobody's business
	write(t, filepath.Join(other, verdictFile), []byte("{}"))
	if got := tryIn(t, dir, "judge", other); got.code != verdict.ExitUsage || string(read(t, filepath.Join(other, verdictFile))) != "{}" {
		t.Errorf("another folder: %+v", got)
	}
}

// judgementIn is the verdict in a run's folder.
func judgementIn(t *testing.T, dir string) *verdict.Judgement {
	t.Helper()
	j := &verdict.Judgement{}
	unmarshal(t, string(read(t, filepath.Join(dir, verdictFile))), j)
	return j
}
