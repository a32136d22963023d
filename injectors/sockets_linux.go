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
		if err != nil || groupOf(pid) != group {
			continue
		}
		inodes := socketsOf(pid)
		for _, table := range []string{"tcp", "tcp6"} {
			ports = append(ports, established(filepath.Join("/proc", e.Name(), "net", table), inodes)...)
		}
	}
	return ports, nil
}

// groupOf is field 5 of /proc/PID/stat; 0 = no such process.
func groupOf(pid int) int {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:])) // from field 3 on
	if len(fields) < 3 {
		return 0
	}
	group, _ := strconv.Atoi(fields[2])
	return group
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
