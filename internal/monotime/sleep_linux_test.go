package monotime

import (
	"errors"
	"os"
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

// Whoever waits for a descriptor lets Go collect as well, and ends with what comes: bytes, the end of all bytes, or the instant.
func TestAReaderLetsGoCollect(t *testing.T) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd := r.Fd()
	until := Now() + int64(time.Millisecond)
	if err := AwaitReadable(fd, until); !errors.Is(err, os.ErrDeadlineExceeded) || Now() < until {
		t.Errorf("nothing came: %v, %s before the instant", err, time.Duration(until-Now()))
	}
	came := make(chan error)
	go func() { came <- AwaitReadable(fd, Now()+int64(time.Hour)) }()
	for range 5 {
		runtime.GC()
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if err := <-came; err != nil {
		t.Errorf("a byte came: %v", err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if err := AwaitReadable(fd, Now()+int64(time.Hour)); err != nil {
		t.Errorf("the end came: %v", err)
	}
}
