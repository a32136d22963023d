//go:build !linux

package injectors

import "errors"

func remotePorts(int) ([]int, error) {
	return nil, errors.New("the sockets of a process are not to be seen on this system")
}
