package e2e

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writesTo returns a function that waits for the next write to the file, for a tenth of a second at most, and costs nothing meanwhile.
func writesTo(t *testing.T, path string) (wait func()) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	events := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { _ = events.Close() })
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<12)
	return func() {
		_ = events.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = events.Read(buf) // a write, or the deadline
	}
}
