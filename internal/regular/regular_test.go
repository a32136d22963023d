package regular

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	t.Chdir(t.TempDir()) // the name of a socket is short
	socket, err := net.Listen("unix", "socket")
	if err := errors.Join(err, syscall.Mkfifo("pipe", 0o600), os.Mkdir("folder", 0o700), os.Symlink("pipe", "link"), os.WriteFile("file", []byte("text"), 0o600), os.Symlink("file", "to-file")); err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, name := range []string{"pipe", "socket", "folder", "link", "/dev/zero", "/dev/null"} {
		if data, err := Read(name); !errors.Is(err, ErrNoFile) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	for name, most := range map[string]int64{"file": 2, "to-file": 9} {
		if data, err := ReadMost(name, most); err != nil || string(data) != "text"[:min(most+1, 4)] {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if _, err := Open(filepath.Join("folder", "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
