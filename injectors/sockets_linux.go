package injectors

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/lockdrill/lockdrill/internal/sockets"
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
		inodes := sockets.Of(pid)
		conns, _ := sockets.Established(pid) // of one that is gone meanwhile there are none
		for _, c := range conns {
			if inodes[c.Inode] {
				ports = append(ports, int(c.Remote.Port()))
			}
		}
	}
	return ports, nil
}
