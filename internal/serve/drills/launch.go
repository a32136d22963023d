package drills

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/due"
	"github.com/lockdrill/lockdrill/internal/notice"
	"github.com/lockdrill/lockdrill/internal/serve/store"
)

// Files of a run's folder that say how it ended.
const (
	historyFile = "history.jsonl"
	verdictFile = "verdict.json"
)

// running is a drill under way.
type running struct {
	Run
	targets []string
	stop    func(by string) // nil = it is one that an earlier server has left
	stopped string          // who stopped it
}

// start writes the start down and begins the run.
func (k *Keeper) start(alive context.Context, p *experiments.Planned, slot due.Slot, request *Request, by string) error {
	path, err := k.file(p)
	if err != nil {
		return k.unrun(Entry{At: k.o.Now(), Kind: Unrun, Drill: p.Name, Slot: slot.At, What: Failed, Why: err.Error()}, p)
	}
	now := k.o.Now().UTC()
	e := Entry{At: now, Kind: Started, Drill: p.Name, Slot: slot.At, Run: now.Format("20060102T150405.000Z") + "-" + p.Name, By: by}
	args := append([]string{"run", path, "--out", filepath.Join(k.o.Dir, e.Run), "--until-closed", "3"}, consent(p)...)
	for name, value := range p.Labels {
		args = append(args, "--label", name+"="+value)
	}
	if request != nil {
		if e.Request, e.Hash, e.By = request.Request, request.Hash, request.By; e.Hash != "" {
			args = append(args, "--plan", e.Hash)
		}
	}
	if err := k.book.Add(e); err != nil { // what is not written down is not started
		return err
	}
	r := &running{Run: Run{Entry: e}, targets: k.o.targetsOf(p, path)}
	k.mu.Lock()
	k.running[e.Run] = r
	k.mu.Unlock()
	k.o.Say(fmt.Sprintf("drill %s: started as %s by %s", p.Name, e.Run, e.By))
	k.wg.Go(func() { k.attend(alive, r, *p, args) })
	return nil
}

// attend is with a run from its process to its entry in the book.
func (k *Keeper) attend(alive context.Context, r *running, p experiments.Planned, args []string) {
	said := &tail{most: mostSaid}
	code, err := k.process(r, args, said)
	end := Entry{Kind: Ended, Drill: r.Drill, Slot: r.Slot, Run: r.Run.Run, Exit: code}
	switch {
	case err != nil:
		end.What, end.Why = Failed, err.Error()
	case code < 0 || code == verdict.ExitError || code == verdict.ExitDirty:
		k.recover(alive, r.Run.Run) // its watchdog does it too: here it is waited for
	}
	k.conclude(&end, said.String())
	k.end(r, end, p)
}

// lockOf is a file that is locked for as long as a run's process lives, also beyond this one.
func (k *Keeper) lockOf(run string) string { return filepath.Join(k.o.Dir, ".lockdrill-running-"+run) }

// process runs lockdrill to its end. The process has the read end of a pipe whose other end is here alone: it ends with this process,
// whatever ends that. And it has a lock, by which the next server knows that it is still at it.
func (k *Keeper) process(r *running, args []string, said *tail) (code int, err error) {
	lock, err := os.OpenFile(k.lockOf(r.Run.Run), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return -1, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return -1, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	defer write.Close()
	cmd := exec.Command(k.o.Binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = k.o.Experiments, said, said, []*os.File{read, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for this process, which passes it on
	cmd.WaitDelay = 5 * time.Second
	err = errors.Join(cmd.Start(), read.Close())
	if err != nil {
		return -1, err
	}
	k.mu.Lock()
	r.stop = func(by string) {
		if r.stopped == "" {
			r.stopped = by
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	k.mu.Unlock()
	k.looked()
	_ = cmd.Wait() // how it ended is in its state
	return cmd.ProcessState.ExitCode(), nil
}

// conclude reads from a run's folder what it came to.
func (k *Keeper) conclude(end *Entry, said string) {
	dir := filepath.Join(k.o.Dir, end.Run)
	if _, err := os.Stat(filepath.Join(dir, historyFile)); err == nil {
		if _, err := os.Stat(filepath.Join(dir, verdictFile)); err != nil { // its process did not come so far
			_ = exec.Command(k.o.Binary, "judge", dir).Run()
		}
	}
	var v struct{ Verdict string }
	if data, err := os.ReadFile(filepath.Join(dir, verdictFile)); err == nil && json.Unmarshal(data, &v) == nil {
		end.Verdict = v.Verdict
	}
	if end.Verdict != "" {
		return
	}
	if end.What == "" {
		if end.What = Failed; end.Exit == verdict.ExitRefused {
			end.What = Refused
		}
	}
	if end.Why == "" {
		end.Why = lastLines(said)
	}
}

// end writes the end down, and tells of it.
func (k *Keeper) end(r *running, end Entry, p experiments.Planned) {
	end.At = k.o.Now()
	k.mu.Lock()
	if end.By = r.stopped; end.By != "" && end.Why == "" {
		end.Why = "stopped by " + end.By
	}
	delete(k.running, end.Run)
	k.mu.Unlock()
	_ = os.Remove(k.lockOf(end.Run)) // where it stays, it locks nothing
	before := k.book.Before(end.Drill, end.Run)
	if err := k.book.Add(end); err != nil {
		k.o.Say(fmt.Sprintf("drill %s: %v", end.Drill, err))
	}
	k.o.Say(strings.TrimRight(fmt.Sprintf("drill %s: %s ended: %s %s", end.Drill, end.Run, outcome(end), end.Why), " "))
	e := notice.Event{ID: rand.Text(), Kind: notice.Ended, Drill: end.Drill, Experiment: p.Experiment, Run: end.Run, Verdict: end.Verdict, Before: before, Why: end.Why, At: end.At, Labels: p.Labels}
	switch {
	case end.Exit == verdict.ExitDirty:
		e.Kind = notice.Dirty
	case end.Verdict == "":
		e.Kind, e.Run, e.Why = notice.Unrun, "", end.What+": "+end.Why
	default:
		e.Kind = kindOf(end.Verdict, before)
	}
	k.tellRun(e, end.Run)
	k.looked()
	k.poke()
}

// kindOf is what a verdict is to those who know the one before; "" = there was none.
func kindOf(now, before string) string {
	switch {
	case now == "dirty":
		return notice.Dirty
	case now != before && (before != "" || now != "pass"):
		return notice.Changed
	}
	return notice.Ended
}

// tellRun tells of a run with the times of its faults.
func (k *Keeper) tellRun(e notice.Event, folder string) {
	if f, err := os.Open(filepath.Join(k.o.Dir, folder, historyFile)); err == nil {
		e.Ran, e.Faults, _ = notice.Spans(f) // as far as it can be read
		_ = f.Close()
	}
	k.tell(e)
}

// uploaded tells of a run that another machine has brought. Of the runs that this server has started it has told already.
func (k *Keeper) uploaded(run store.Run, before string) {
	k.tellRun(notice.Event{
		ID: rand.Text(), Kind: kindOf(run.Verdict, before), Drill: run.Experiment, Experiment: run.Experiment, Run: run.Folder, Verdict: run.Verdict, Before: before,
		Why: run.Why, At: k.o.Now(), Labels: run.Labels,
	}, run.Folder)
}

func (k *Keeper) looked() {
	if k.o.Looked != nil {
		k.o.Looked()
	}
}

// adopt brings a run to its end that an earlier server has left: it ends by itself, and what it does not undo its watchdog does.
func (k *Keeper) adopt(alive context.Context, left Run) {
	s, _ := k.Schedule()
	p := experiments.Planned{Name: left.Drill}
	r := &running{Run: left, targets: []string{thisMachine}}
	if known := s.Drill(left.Drill); known != nil {
		p = *known
		if path, err := k.file(known); err == nil {
			r.targets = k.o.targetsOf(known, path)
		}
	}
	k.mu.Lock()
	k.running[left.Run] = r
	k.mu.Unlock()
	k.wg.Go(func() {
		end := Entry{Kind: Ended, Drill: left.Drill, Slot: left.Slot, Run: left.Run, What: Aborted, Why: "the server ended while it ran"}
		k.outlive(alive, left.Run)
		end.Exit = k.recover(alive, left.Run)
		k.conclude(&end, "")
		k.end(r, end, p)
	})
}

// outlive waits for the end of a run's process: it may have been about to begin.
func (k *Keeper) outlive(ctx context.Context, run string) {
	ctx, cancel := context.WithTimeout(ctx, recoverWithin)
	defer cancel()
	lock, err := os.Open(k.lockOf(run))
	if err != nil {
		return // it was not started
	}
	defer lock.Close()
	for syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		select {
		case <-time.After(recoverAgain):
		case <-ctx.Done():
			k.o.Say(fmt.Sprintf("run %s: its process has not ended within %s", run, recoverWithin))
			return
		}
	}
}

const (
	recoverWithin = 5 * time.Minute
	recoverAgain  = 300 * time.Millisecond
)

// recover waits until nothing of a run is left, and gives the status of that: ExitDirty where something is.
func (k *Keeper) recover(ctx context.Context, run string) int {
	ctx, cancel := context.WithTimeout(ctx, recoverWithin)
	defer cancel()
	dir := filepath.Join(k.o.Dir, run)
	for {
		if _, err := os.Stat(dir); err != nil {
			return 0 // it did not come so far
		}
		out := &tail{most: mostSaid}
		cmd := exec.CommandContext(ctx, k.o.Binary, "recover", dir)
		cmd.Stdout, cmd.Stderr = out, out
		_ = cmd.Run()
		switch code := cmd.ProcessState.ExitCode(); code {
		case verdict.ExitPass:
			return 0
		case verdict.ExitRefused: // its process, or its watchdog, is at it
		default:
			k.o.Say(fmt.Sprintf("recover %s: status %d: %s", run, code, lastLines(out.String())))
			if code == verdict.ExitUsage { // a folder without anything to undo
				return 0
			}
			return verdict.ExitDirty
		}
		select {
		case <-time.After(recoverAgain):
		case <-ctx.Done():
			return verdict.ExitDirty
		}
	}
}

// Running are the drills under way, the latest first.
func (k *Keeper) Running() []Run {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Run
	for _, r := range k.running {
		all = append(all, r.Run)
	}
	slices.SortFunc(all, func(a, b Run) int { return b.At.Compare(a.At) })
	return all
}

// Stop ends a run in order: its faults are undone, and it has a verdict that says that it was stopped.
func (k *Keeper) Stop(run, by string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.running[run]
	if r == nil || r.stop == nil {
		return no("no run of this server is called %q", run)
	}
	r.stop(by)
	return nil
}

func (k *Keeper) stopAll(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.running {
		if r.stop != nil {
			r.stop(why)
		}
	}
}

// busy names the run that has a target of the drill, or "".
func (k *Keeper) busy(p *experiments.Planned) string {
	path, err := k.file(p)
	if err != nil {
		return "" // the start says why
	}
	targets := k.o.targetsOf(p, path)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.running {
		if slices.ContainsFunc(r.targets, func(t string) bool { return slices.Contains(targets, t) }) {
			return "run " + r.Run.Run
		}
	}
	return ""
}

// thisMachine is the target of a drill that starts all that it touches: two at once would slow each other down.
const thisMachine = "this machine"

// targetsOf are what a drill touches. A file that cannot be read has none that is known: its run says so.
func (o *Options) targetsOf(p *experiments.Planned, path string) []string {
	e, err := experiments.Load(path)
	if err != nil {
		return []string{thisMachine}
	}
	if k := e.Kubernetes; k != nil {
		if p.Context != "" {
			k.Context = p.Context
		}
		if p.Namespace != "" {
			k.Namespace = p.Namespace
		}
	}
	if all := o.Targets(e); len(all) > 0 {
		return all
	}
	return []string{thisMachine}
}

// tail keeps the last bytes of what a process prints.
type tail struct {
	mu   sync.Mutex
	most int
	text []byte
}

const mostSaid = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - t.most; over > 0 {
		t.text = slices.Clone(t.text[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "?")
}

// lastLines is what a process has said last, for a person.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(experiments.Redact(text)), "\n")
	text = strings.Join(lines[max(0, len(lines)-3):], " ")
	if runes := []rune(text); len(runes) > 600 {
		text = "..." + string(runes[len(runes)-600:])
	}
	return text
}
