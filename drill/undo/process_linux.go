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
	var all []int
	var foreign error
	number := strconv.Itoa(p.PID)
	err = eachProcess(func(pid int, stat []string) (hidden bool) {
		kin := (stat[groupField] == number || stat[sessionField] == number) && !reused
		mark := markOf(pid)
		hidden = p.Mark != "" && mark == "" && !kin && !older(stat[startField], p.Started) && unread(pid)
		switch {
		case kin && (leads || p.owns(pid)), pid == p.PID && leads, p.Mark != "" && mark == p.Mark, p.forked(pid):
			all = append(all, pid)
			return false
		case kin && !gone(pid):
			foreign = fmt.Errorf("process %d is in the group of process %d, which is dead, and does not carry its mark: it is not touched", pid, p.PID)
		}
		return hidden
	})
	if err != nil {
		return nil, err
	}
	return all, foreign
}

// eachProcess calls see for every process that runs, but this one. One that is hidden, as between the two programs of an exec, is seen
// again a moment later; so are those that have come while the others were looked at: a chain of forks must not run past the look.
func eachProcess(see func(pid int, stat []string) (hidden bool)) error {
	seen := map[int]string{}
	for range execLooks {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return fmt.Errorf("look for processes: %w", err)
		}
		fresh, hidden := false, false
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			stat, err := statOf(pid)
			if err != nil || corpse(stat) || seen[pid] == stat[startField] { // gone meanwhile, a corpse, or known
				continue
			}
			fresh = true
			if see(pid, stat) {
				hidden = true
				continue
			}
			seen[pid] = stat[startField]
		}
		if !fresh {
			return nil
		}
		if hidden {
			time.Sleep(execLook)
		}
	}
	return nil
}

// older compares two start times.
func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// unread reports a process of a user's whose environment is empty at this moment: cleared, or not there yet. Threads of the kernel have none.
func unread(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(data) > 0 {
		return false
	}
	stat, err := statOf(pid)
	if err != nil || corpse(stat) || exiting(stat) {
		return false
	}
	flags, err := strconv.ParseUint(stat[flagsField], 10, 64)
	return err == nil && flags&0x200000 == 0 // PF_KTHREAD of linux/sched.h
}

// endMarked kills what carries the mark, and reports that nothing does.
func endMarked(mark string) (none bool, err error) {
	none = true
	err = eachProcess(func(pid int, _ []string) (hidden bool) {
		switch has := markOf(pid); {
		case has == "":
			return unread(pid)
		case has == mark && !gone(pid):
			none = false
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone meanwhile, or looked for again
		}
		return false
	})
	return none && err == nil, err
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

// An exec hides the environment for microseconds, and for as long as its process waits for a processor.
const (
	execLooks = 200
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
	return err == nil && (cwd == p.Folder || strings.HasPrefix(cwd, p.Folder+"/")) && laidFor(p.Folder, pid)
}

// laidFor reports that a folder, by which a process is to be known, belongs to that process's user, to the caller or to root: what
// others have put around a process proves nothing. Of one that is gone, the folder that the process works in is asked.
func laidFor(dir string, pid int) bool {
	own := fmt.Sprintf("/proc/%d", pid)
	user, err := ownerOf(own)
	if err != nil {
		return false
	}
	whose, err := ownerOf(dir)
	if errors.Is(err, fs.ErrNotExist) {
		whose, err = ownerOf(own + "/cwd")
	}
	return err == nil && (whose == user || isUs(whose))
}

func ownerOf(path string) (uint32, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("whom %s belongs to cannot be told", path)
	}
	return stat.Uid, nil
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
