package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// server is a redis-server of this run, in a folder of its own.
type server struct {
	addr, version string
	pid           int
	stop          func()
}

func startServer(ctx context.Context) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("choose a port: %w", err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	dir, err := os.MkdirTemp("", "lockdrill-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	s := &server{addr: addr, pid: cmd.Process.Pid, stop: func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}}
	c := redisstore.NewClient(addr)
	defer c.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		info, err := c.Info(ctx, "server").Result()
		if err == nil {
			s.version = field(info, "redis_version")
			return s, nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			s.stop()
			return nil, fmt.Errorf("wait for redis-server: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// field is a value of INFO's text.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// scriptCalls is how many scripts the server has run.
func scriptCalls(ctx context.Context, c *redis.Client) (int, error) {
	info, err := c.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("count scripts: %w", err)
	}
	total := 0
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		n, _ := strconv.Atoi(m[1])
		total += n
	}
	return total, nil
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU is the processor time of the server, where the system tells (Linux: in steps of 10 ms), else 0.
func serverCPU(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
