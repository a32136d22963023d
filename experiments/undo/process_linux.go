package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
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
	state := stat[0]
	return stat[startField] == p.Started && state != "Z" && state != "X", nil
}

// startField is field 22 of /proc/PID/stat, counted from the state, which is field 3.
const startField = 19

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
