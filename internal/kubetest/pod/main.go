// Command pod is what the tests' containers run where it must not be lockdrill: `pod` holds a pod's namespaces as the pause container
// does, and `pod beat` writes a line ten times a second. It does no work and takes no lock.
//
// Its one invariant: `pod` and `pod beat` end at SIGTERM, and `pod beat deaf` at nothing but SIGKILL.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

const beatEvery = 100 * time.Millisecond

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	var beat <-chan time.Time
	if slices.Contains(os.Args, "beat") {
		beat = time.Tick(beatEvery)
	}
	for n := 1; ; {
		select {
		case <-beat:
			fmt.Println("beat", n)
			n++
		case <-ended:
			if !slices.Contains(os.Args, "deaf") {
				return
			}
			fmt.Println("SIGTERM ignored")
		}
	}
}
