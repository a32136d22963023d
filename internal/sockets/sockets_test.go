package sockets

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

func TestAddressesAreReadAsTheKernelWritesThem(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:18EB": "[::1]:6379",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
	} {
		if got, err := address(text); err != nil || got != netip.MustParseAddrPort(want) {
			t.Errorf("address(%s) = %v, %v; want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "01", "0100007F", "0100007F:x", "xx00007F:1F90"} {
		if got, err := address(bad); err == nil {
			t.Errorf("address(%q) = %v", bad, got)
		}
	}
}

// A connection leads to whoever has it open, and to all of them where a child has inherited it.
func TestAConnectionLeadsToItsOwners(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux'")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	testkit.Must(t, err)
	defer conn.Close()
	all, err := Established(os.Getpid())
	testkit.Must(t, err)
	local := netip.MustParseAddrPort(conn.LocalAddr().String())
	at := slices.IndexFunc(all, func(c Conn) bool { return c.Local == local })
	if at < 0 || all[at].Remote.String() != l.Addr().String() {
		t.Fatalf("no connection from %s among %v", local, all)
	}
	if pids, err := Owners(all[at].Inode); err != nil || !slices.Equal(pids, []int{os.Getpid()}) {
		t.Errorf("owners %v, %v; want %d", pids, err, os.Getpid())
	}
	shared, err := conn.(*net.TCPConn).File()
	testkit.Must(t, err)
	defer shared.Close()
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	testkit.Must(t, err)
	child.ExtraFiles = []*os.File{shared}
	testkit.Must(t, child.Start())
	defer func() { _ = in.Close(); _ = child.Wait() }()
	if pids, err := Owners(all[at].Inode); err != nil || len(pids) != 2 || !slices.Contains(pids, child.Process.Pid) {
		t.Errorf("owners %v, %v; want %d and its child %d", pids, err, os.Getpid(), child.Process.Pid)
	}
}
