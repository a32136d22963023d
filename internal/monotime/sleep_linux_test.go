package monotime

import (
	"runtime"
	"testing"
	"time"
)

// Go's collector stops whoever runs: a sleeper lets it, and sleeps on to its instant.
func TestASleeperLetsGoCollect(t *testing.T) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	go SleepUntil(Now() + int64(time.Hour)) // the test does not end while the collector waits for it
	until := Now() + int64(50*time.Millisecond)
	woke := make(chan int64)
	go func() {
		SleepUntil(until)
		woke <- Now()
	}()
	for range 5 {
		runtime.GC()
	}
	if at := <-woke; at < until {
		t.Errorf("woke %s too early", time.Duration(until-at))
	}
}
