package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func lives(p Process) (bool, error) {
	if p.Host == "" || p.Started == "" {
		return false, fmt.Errorf("process %d was not written down with its start: whether it is still the same cannot be told", p.PID)
	}
	if p.Host != bootID() {
		return false, nil
	}
	stat, err := statOf(p.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for process %d: %w", p.PID, err)
	}
	return stat[startField] == p.Started && !corpse(stat), nil
}

// signalAlone signals the very process: it is held by a handle while it is made sure that it is the one.
func (p Process) signalAlone(sig syscall.Signal) (none bool, err error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	} else if err != nil {
		return false, fmt.Errorf("hold process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if alive, err := p.Lives(); err != nil || !alive {
		return err == nil, err
	}
	switch err := unix.PidfdSendSignal(fd, sig, nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return false, nil
}

// members lists what was started as p and runs. What is in its group or session is p's as long as p lives, or carries its mark: the
// number of a group is given to another process only when nothing is left in the group.
func (p Process) members() ([]int, error) {
	if p.Host == "" || p.Started == "" {
		return nil, fmt.Errorf("process %d was not written down with its start: whether it is still the same cannot be told", p.PID)
	}
	if p.Host != bootID() {
		return nil, nil
	}
	leader, err := statOf(p.PID)
	leads := err == nil && leader[startField] == p.Started && !corpse(leader)
	reused := err == nil && leader[startField] != p.Started
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	var all []int
	var foreign error
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, err := statOf(pid)
		if err != nil || corpse(stat) {
			continue // gone meanwhile, or a corpse
		}
		number := strconv.Itoa(p.PID)
		kin := (stat[groupField] == number || stat[sessionField] == number) && !reused
		switch {
		case kin && (leads || p.owns(pid)), p.Mark != "" && markOf(pid) == p.Mark, p.forked(pid):
			all = append(all, pid)
		case kin && !gone(pid):
			foreign = fmt.Errorf("process %d is in the group of process %d, which is dead, and does not carry its mark: it is not touched", pid, p.PID)
		}
	}
	return all, foreign
}

// endMarked kills what carries the mark, and reports that nothing does.
func endMarked(mark string) (none bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, fmt.Errorf("look for processes: %w", err)
	}
	none = true
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || markOf(pid) != mark {
			continue
		}
		if !gone(pid) {
			none = false
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone meanwhile, or looked for again
		}
	}
	return none, nil
}

// owns is carries for a process whose environment may be away for a moment: between the two programs of an exec, which is waited for, and
// on the way out. Dying must be asked after the mark was not found: what was alive before the look may have died during it.
func (p Process) owns(pid int) bool {
	for range execLooks {
		if p.carries(pid) {
			return true
		}
		if stat, err := statOf(pid); err != nil || corpse(stat) {
			return false
		} else if exiting(stat) {
			return true
		}
		time.Sleep(execLook)
	}
	return false
}

// An exec hides the environment for microseconds.
const (
	execLooks = 20
	execLook  = time.Millisecond
)

// carries reports whether a process is of those that were started as p: by the mark in its environment, by the folder that it works
// in, or, where an earlier lockdrill wrote down neither, as a worker of lockdrill's.
func (p Process) carries(pid int) bool {
	if p.Mark != "" && markOf(pid) == p.Mark {
		return true
	}
	if p.Folder != "" {
		return p.worksIn(pid)
	}
	if p.Mark != "" {
		return false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := strings.Split(string(command), "\x00")
	return err == nil && len(words) > 1 && filepath.Base(words[0]) == "lockdrill" && words[1] == "worker"
}

// worksIn reports whether a process works in the folder, or below it.
func (p Process) worksIn(pid int) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	cwd = strings.TrimSuffix(cwd, " (deleted)")
	return err == nil && (cwd == p.Folder || strings.HasPrefix(cwd, p.Folder+"/"))
}

// forked reports whether a process is one of its forks that are known by nothing but their title and the folder.
func (p Process) forked(pid int) bool {
	if p.Forks == "" || p.Folder == "" || !p.worksIn(pid) {
		return false
	}
	title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(title), p.Forks)
}

// markOf is the mark in a process's environment; "" = none, or it may not be read.
func markOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for v := range strings.SplitSeq(string(data), "\x00") {
		if mark, ok := strings.CutPrefix(v, MarkEnv+"="); ok {
			return mark
		}
	}
	return ""
}

// Fields of /proc/PID/stat, counted from the state, which is field 3.
const (
	groupField   = 2
	sessionField = 3
	flagsField   = 6
	startField   = 19
)

// corpse reports a process that runs no more.
func corpse(stat []string) bool { return stat[0] == "Z" || stat[0] == "X" }

// gone reports that nothing runs under a number.
func gone(pid int) bool {
	stat, err := statOf(pid)
	return err != nil || corpse(stat)
}

// exiting reports a process on its way out, which has no environment to be known by any more (PF_EXITING of linux/sched.h).
func exiting(stat []string) bool {
	flags, err := strconv.ParseUint(stat[flagsField], 10, 64)
	return err == nil && flags&0x4 != 0
}

// statOf splits /proc/PID/stat from its third field, the state, on: the name before it may contain anything.
func statOf(pid int) ([]string, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= startField {
		return nil, fmt.Errorf("%d fields", len(fields))
	}
	return fields, nil
}

func startOf(pid int) string {
	fields, err := statOf(pid)
	if err != nil {
		return ""
	}
	return fields[startField]
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
