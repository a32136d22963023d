package injectors

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// remotePorts lists the ports at the far end of the open TCP connections of a process group, from /proc.
func remotePorts(group int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var ports []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, its, err := stateOf(filepath.Join("/proc", e.Name(), "stat")); err != nil || its != group {
			continue // gone meanwhile, or another's
		}
		inodes := socketsOf(pid)
		for _, table := range []string{"tcp", "tcp6"} {
			ports = append(ports, established(filepath.Join("/proc", e.Name(), "net", table), inodes)...)
		}
	}
	return ports, nil
}

// socketsOf is the set of the inodes of a process's sockets.
func socketsOf(pid int) map[string]bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(dir) // a process that is gone has none
	inodes := map[string]bool{}
	for _, e := range entries {
		link, _ := os.Readlink(filepath.Join(dir, e.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// established reads the table of connections: columns local, remote (hexadecimal address:port), state, ..., inode.
func established(path string, inodes map[string]bool) []int {
	data, _ := os.ReadFile(path)
	var ports []int
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "01" || !inodes[f[9]] {
			continue
		}
		_, port, _ := strings.Cut(f[2], ":")
		if n, err := strconv.ParseInt(port, 16, 32); err == nil {
			ports = append(ports, int(n))
		}
	}
	return ports
}
