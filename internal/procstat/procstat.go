// Package procstat reads what Linux says of its processors and of the processes on them: who worked, and who waited for a turn.
//
// Everything is a sum since the processor or the process began: readers take differences. On a system without such a /proc every reading
// is an error, and that is how a caller finds out.
package procstat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Proc is a mounted /proc. It is not safe for concurrent use.
type Proc struct {
	root string
	buf  []byte
}

// New returns the system's own.
func New() *Proc { return At(system) }

const system = "/proc"

// At returns the one at root.
func At(root string) *Proc { return &Proc{root: root, buf: make([]byte, 4096)} }

// tick is the unit of /proc/stat and /proc/PID/stat: USER_HZ is 100 wherever Go runs on Linux.
const tick = 10 * time.Millisecond

// Busy is the time for which processors were not idle, all of them together, and what the machine's own host took from them.
func (p *Proc) Busy() (time.Duration, error) {
	line, err := p.read("stat")
	if err != nil {
		return 0, err
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("%s/stat: %q is not the line of all processors", p.root, line)
	}
	var sum time.Duration
	for i, f := range fields[1:9] { // user nice system idle iowait irq softirq steal; guest is in user
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s/stat: %w", p.root, err)
		}
		if idle := i == 3 || i == 4; !idle {
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// Process is one process as /proc/PID/stat has it.
type Process struct {
	PID, Session int
	Used         time.Duration // by all of its threads, those that have ended too, and by its children that it has waited for
	Parent       int
	Started      int64 // ticks since boot
	Over         bool  // it has ended, and nobody has collected it
}

// Process reads one.
func (p *Proc) Process(pid int) (Process, error) {
	line, err := p.read(strconv.Itoa(pid), "stat")
	if err != nil {
		return Process{}, err
	}
	end := bytes.LastIndexByte(line, ')') // the name before may have spaces and brackets
	fields := bytes.Fields(line[end+1:])
	if end < 0 || len(fields) < 20 {
		return Process{}, fmt.Errorf("%s/%d/stat: %q is not the line of a process", p.root, pid, line)
	}
	var n [7]int64
	for i, at := range [...]int{3, 11, 12, 13, 14, 1, 19} { // session, utime, stime, cutime, cstime, parent, start; the state is 0
		if n[i], err = strconv.ParseInt(string(fields[at]), 10, 64); err != nil {
			return Process{}, fmt.Errorf("%s/%d/stat: %w", p.root, pid, err)
		}
	}
	state := fields[0][0]
	return Process{
		PID: pid, Session: int(n[0]), Used: time.Duration(n[1]+n[2]+n[3]+n[4]) * tick, Parent: int(n[5]), Started: n[6], Over: state == 'Z' || state == 'X',
	}, nil
}

// Session is the session of a process. A drill asks for that of all there are, once a second: a call costs a fiftieth of a file.
func (p *Proc) Session(pid int) (int, error) {
	if p.root == system {
		return unix.Getsid(pid)
	}
	s, err := p.Process(pid)
	return s.Session, err
}

// Began is when a process was started, by the clock that runs on while the machine is suspended; it may have been up to a tick later.
func (p Process) Began() time.Duration { return time.Duration(p.Started) * tick }

// Command is a process's command line, its arguments joined by one space; "" = it is none of a program.
func (p *Proc) Command(pid int) (string, error) {
	line, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(pid), "cmdline"))
	return string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '})), err
}

// Owner is the user that a process acts as.
func (p *Proc) Owner(pid int) (uid int, err error) {
	status, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("\nUid:"))
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s/%d/status names no user", p.root, pid)
	}
	return strconv.Atoi(string(fields[1])) // real, effective
}

// All lists the processes there are.
func (p *Proc) All() ([]int, error) { return p.numbers() }

// Threads lists the threads of a process.
func (p *Proc) Threads(pid int) ([]int, error) { return p.numbers(strconv.Itoa(pid), "task") }

// Thread reads for how long a thread has run, and for how long it was ready to run and waited for a processor.
func (p *Proc) Thread(pid, tid int) (ran, waited time.Duration, err error) {
	return p.schedstat(strconv.Itoa(pid), "task", strconv.Itoa(tid), "schedstat")
}

// Self is Thread of the thread that calls.
func (p *Proc) Self() (ran, waited time.Duration, err error) {
	return p.schedstat("thread-self", "schedstat")
}

func (p *Proc) schedstat(path ...string) (ran, waited time.Duration, err error) {
	line, err := p.read(path...)
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(line)
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("%s: %q is no schedstat", filepath.Join(path...), line)
	}
	for i, into := range []*time.Duration{&ran, &waited} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", filepath.Join(path...), err)
		}
		*into = time.Duration(n)
	}
	return ran, waited, nil
}

// read returns the beginning of a file, as much as its first line needs; good until the next call.
func (p *Proc) read(path ...string) ([]byte, error) {
	f, err := os.Open(filepath.Join(append([]string{p.root}, path...)...))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Read(p.buf)
	if err != nil {
		return nil, err
	}
	return p.buf[:n], nil
}

// numbers lists the entries of a folder whose names are numbers.
func (p *Proc) numbers(path ...string) ([]int, error) {
	dir, err := os.Open(filepath.Join(append([]string{p.root}, path...)...))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var ns []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			ns = append(ns, n)
		}
	}
	return ns, nil
}
