package main

import (
	"fmt"
	"io"
	"time"
)

// sayEvery prints a line on w every two seconds, so that long work is seen to go on, until stop is called.
func sayEvery(w io.Writer, line func() string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				fmt.Fprintln(w, line())
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
