package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

const (
	ceilingKeys   = 128 // as many as the busiest contestants have callers
	ceilingWindow = 2   // batches under way
)

// ceiling is how many pairs a second our own two scripts give when they are written by hand, in batches over one connection, and
// nobody looks at the replies but to count them: what a client library could reach at most.
func ceiling(ctx context.Context, addr string, length time.Duration) (float64, error) {
	acquire, release, err := loadScripts(ctx, addr)
	if err != nil {
		return 0, err
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, fmt.Errorf("dial: %w", err)
	}
	defer conn.Close()
	var batch []byte
	for i := range ceilingKeys {
		key, t := "lock:"+strconv.Itoa(i), token()
		args := pairArgs(key, t)
		batch = command(batch, append([]string{"EVALSHA", acquire, "2"}, args.acquire[:]...)...)
		batch = command(batch, append([]string{"EVALSHA", release, "3"}, args.release[:]...)...)
	}
	window := make(chan struct{}, ceilingWindow)
	written := make(chan error, 1)
	start := time.Now()
	_ = conn.SetDeadline(start.Add(length + 10*time.Second))
	go func() {
		defer close(window)
		for time.Since(start) < length {
			window <- struct{}{}
			if _, err := conn.Write(batch); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	n := 0
	replies := bufio.NewReaderSize(conn, 1<<16)
	for range window {
		for range 2 * ceilingKeys {
			if err := skipReply(replies); err != nil {
				return 0, err
			}
		}
		n += ceilingKeys
	}
	return float64(n) / time.Since(start).Seconds(), <-written
}

// loadScripts reads the scripts from the source tree that this module stands in.
func loadScripts(ctx context.Context, addr string) (acquire, release string, err error) {
	c := redisstore.NewClient(addr)
	defer c.Close()
	load := func(call string, names ...string) (sha string) {
		var text []byte
		for _, name := range names {
			part, readErr := os.ReadFile("../../lockcore/redisstore/" + name)
			if readErr != nil {
				err = fmt.Errorf("read script (run this in its folder): %w", readErr)
			}
			text = append(text, part...)
		}
		if err == nil {
			sha, err = c.ScriptLoad(ctx, string(text)+call).Result()
		}
		return sha
	}
	acquire = load("return acquire(nil, KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])", "acquire.lua")
	release = load("return release(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3])", "pass.lua", "release.lua")
	return acquire, release, err
}

// scriptArgs are the keys, then the arguments, of our two scripts.
type scriptArgs struct {
	acquire [5]string
	release [6]string
}

func pairArgs(key, token string) scriptArgs {
	return scriptArgs{
		acquire: [5]string{key, "{" + key + "}:fence", token, "60000", "86400000"},
		release: [6]string{key, "{" + key + "}:turn", "{" + key + "}:line", token, "500", "60000"},
	}
}

func command(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, a := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(a)), 10)
		b = append(b, "\r\n"...)
		b = append(b, a...)
		b = append(b, "\r\n"...)
	}
	return b
}

// skipReply reads one integer or bulk string; anything else is a refusal.
func skipReply(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	switch {
	case err != nil:
		return fmt.Errorf("read reply: %w", err)
	case line[0] == ':':
		return nil
	case line[0] == '$':
		_, err = r.ReadSlice('\n')
		return err
	}
	return fmt.Errorf("unexpected reply %q", line)
}
