// Command pod is what the tests' containers run where it must not be lockdrill: it holds a pod's namespaces as the pause container does.
// It does no work and takes no lock.
//
// Its one invariant: it ends at SIGTERM, and not before.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
}
