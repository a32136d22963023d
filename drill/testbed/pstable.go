package testbed

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/procstat"
)

const (
	psEvery  = time.Second
	psWithin = 5 * time.Second
	psMost   = 16 << 20 // bytes
)

// psTable is the list of processes where there is no /proc: what ps prints, at most once a second. Starts are known to the second.
type psTable struct {
	clock func() int64
	read  int64 // when; 0 = never
	boot  time.Time
	rows  map[int]psRow
}

type psRow struct {
	procstat.Process
	uid     int
	command string
}

// All implements processes.
func (t *psTable) All() ([]int, error) {
	if now := t.clock(); t.read == 0 || now-t.read >= int64(psEvery) {
		out, err := command.Command{
			Words: []string{"ps", "-axo", "pid=,ppid=,uid=,lstart=,command="}, Env: []string{"LC_ALL=C", "TZ=UTC"}, Within: psWithin, Most: psMost,
		}.Run(context.Background())
		if err != nil || out.Exit != 0 {
			return nil, fmt.Errorf("ps ended with status %d: %w", out.Exit, err)
		}
		if t.boot.IsZero() { // once: a start must be the same number each time it is read
			t.boot = time.Now().Add(-time.Duration(monotime.Boot()))
		}
		t.rows, t.read = t.parse(out.Stdout), now
	}
	var pids []int
	for pid := range t.rows {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids, nil
}

// parse reads lines such as "12 1 501 Sun Nov 22 18:57:52 2026 python3 scheduler.py"; what is none is left out.
func (t *psTable) parse(text string) map[int]psRow {
	rows := map[int]psRow{}
	for lines := bufio.NewScanner(bytes.NewReader([]byte(text))); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 9 {
			continue
		}
		var n [3]int
		var err error
		for i := range n {
			if n[i], err = strconv.Atoi(fields[i]); err != nil {
				break
			}
		}
		began, bad := time.Parse("Jan 2 15:04:05 2006", strings.Join(fields[4:8], " "))
		if err != nil || bad != nil {
			continue
		}
		rows[n[0]] = psRow{
			procstat.Process{PID: n[0], Parent: n[1], Started: int64(began.Sub(t.boot) / (10 * time.Millisecond))}, n[2], strings.Join(fields[8:], " "),
		}
	}
	return rows
}

func (t *psTable) row(pid int) (psRow, error) {
	if _, err := t.All(); err != nil {
		return psRow{}, err
	}
	r, ok := t.rows[pid]
	if !ok {
		return r, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	return r, nil
}

// Process implements processes.
func (t *psTable) Process(pid int) (procstat.Process, error) {
	r, err := t.row(pid)
	return r.Process, err
}

// Command implements processes.
func (t *psTable) Command(pid int) (string, error) {
	r, err := t.row(pid)
	return r.command, err
}

// Owner implements processes.
func (t *psTable) Owner(pid int) (uid int, err error) {
	r, err := t.row(pid)
	return r.uid, err
}
