package undo

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A journal whose last line was cut off by a full disk is undone while the disk is full; the error says once that nothing is written.
func TestAJournalOnAFullDiskIsUndone(t *testing.T) {
	data, err := os.ReadFile(do(t, Header{Run: "r"}, "intent a", "intent b", "injected b"))
	if err != nil {
		t.Fatal(err)
	}
	undoneUnwritten(t, full(t, data[:len(data)-20]))
}

// full is a file in memory that has data and cannot grow.
func full(t *testing.T, data []byte) string {
	t.Helper()
	fd, err := unix.MemfdCreate("journal", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	if err != nil {
		t.Skip("no memfd: ", err)
	}
	f := os.NewFile(uintptr(fd), "journal")
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd())
}
