//go:build !linux

package undo

import (
	"context"
	"fmt"
	"os"
)

// CgroupOf names no cgroup here: there are none.
func (j *Journal) CgroupOf(string) string { return "" }

// MakeCgroup makes none here.
func MakeCgroup(string) *os.File { return nil }

// EndCgroup knows only that there is nothing to end where the record names none.
func EndCgroup(_ context.Context, name string) error {
	if name == "" {
		return nil
	}
	return fmt.Errorf("end cgroup %s: there are no cgroups on this system", name)
}
