// Package command runs a command of the user's: a list of words and no shell, in a process group of its own that ends with it, for a
// limited time, and with as much of its output as is asked for.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Command is a command. The zero values of Dir and Env are those of the caller.
type Command struct {
	Words  []string // the program and its arguments
	Dir    string
	Env    []string // "NAME=value", beside the caller's environment
	Within time.Duration
	Most   int // bytes kept of each stream, the first ones; 0 = 4096

	Secrets []string // names of environment variables whose values Said hides, beside those whose names say so
}

// Result is what a command that was started came to.
type Result struct {
	Stdout, Stderr string
	Cut            bool // there was more than Most
	Exit           int  // -1 = a signal ended it

	secrets []string
}

// most bytes of a stream are kept where nobody says how many.
const most = 4096

// ErrTime says that the command took too long, and was ended.
var ErrTime = errors.New("it did not end in time")

// Run waits for the command's end, or for the end of its time, and ends what it has left behind in its process group. The error says
// that it could not be started, took too long (ErrTime), or that ctx was over; a bad exit status is no error.
func (c Command) Run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Within, fmt.Errorf("%w (%s)", ErrTime, c.Within))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Words[0], c.Words[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for streams that what has left the group holds open
	out, errs := &first{most: c.Most}, &first{most: c.Most}
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		return Result{Exit: -1}, fmt.Errorf("start %s: %w", c.Words[0], err)
	}
	endLeft(cmd.Process.Pid)
	_ = cmd.Wait() // how it ended is in ProcessState
	r := Result{Stdout: out.kept.String(), Stderr: errs.kept.String(), Cut: out.cut || errs.cut, Exit: cmd.ProcessState.ExitCode(), secrets: c.Secrets}
	if r.Exit < 0 && ctx.Err() != nil {
		return r, fmt.Errorf("%s: %w", c.Words[0], context.Cause(ctx))
	}
	return r, nil
}

// Said is what the command has printed, on one line, for a person: without what looks like a secret. "" = nothing.
func (r Result) Said() string {
	text := strings.Join(strings.Fields(r.Stderr+"\n"+r.Stdout), " ")
	if r.Cut {
		text += " ..."
	}
	return hide(text, r.secrets)
}

// first keeps the first bytes of a stream, and reads it to its end.
type first struct {
	kept bytes.Buffer // not embedded: its ReadFrom would take everything
	most int
	cut  bool
}

func (f *first) Write(p []byte) (int, error) {
	limit := f.most
	if limit == 0 {
		limit = most
	}
	keep := p
	if room := limit - f.kept.Len(); len(p) > room {
		keep, f.cut = p[:room], true
	}
	_, err := f.kept.Write(keep)
	return len(p), err
}

var (
	secretURL  = regexp.MustCompile(`://[^\s"']*@`)
	secretWord = regexp.MustCompile(`(?i)((?:password|passwd|secret|token|credential|api_?key)[a-z_-]*["']?\s*[=:]\s*)[^\s"'&,}\]]+`)
	secretName = regexp.MustCompile(`(?i)pass|secret|token|credential|auth$|_key$`)
)

// shortest value of a variable that is taken for a secret by the variable's name: a shorter one would hide half of what is said.
const shortest = 4

// hide takes user and password of URLs out of a text, values behind telling words, and those of environment variables that are secret.
func hide(text string, names []string) string {
	text = secretURL.ReplaceAllString(text, "://***@")
	text = secretWord.ReplaceAllString(text, "${1}***")
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if value != "" && slices.Contains(names, name) || len(value) >= shortest && secretName.MatchString(name) {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}
