// Package sockets reads in /proc which process has which TCP connection. On a system without such a /proc every reading is an error.
package sockets

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Conn is an established TCP connection.
type Conn struct {
	Local, Remote netip.AddrPort
	Inode         string
}

// Of is the set of the inodes of a process's sockets; none of a process that is gone, or another user's.
func Of(pid int) map[string]bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(dir)
	inodes := map[string]bool{}
	for _, e := range entries {
		link, _ := os.Readlink(filepath.Join(dir, e.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// Established lists the connections of the network that a process is in; pid 0 is the caller's own.
func Established(pid int) ([]Conn, error) {
	who := "self"
	if pid != 0 {
		who = strconv.Itoa(pid)
	}
	var all []Conn
	for _, table := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile(filepath.Join("/proc", who, "net", table))
		if err != nil && table == "tcp" {
			return nil, fmt.Errorf("read connections: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line) // its number, local, remote (hexadecimal address:port), state, ..., inode
			if len(f) < 10 || f[3] != "01" {
				continue
			}
			local, errLocal := address(f[1])
			remote, errRemote := address(f[2])
			if errLocal == nil && errRemote == nil {
				all = append(all, Conn{local, remote, f[9]})
			}
		}
	}
	return all, nil
}

// address reads one as the kernel writes it: words of 32 bits in the machine's order.
func address(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

// Owners lists the processes that have a socket open, as far as the caller may see.
func Owners(inode string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && Of(pid)[inode] {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
