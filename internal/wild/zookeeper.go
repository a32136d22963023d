package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockdrill/lockdrill/internal/wild/cluster"
	"github.com/lockdrill/lockdrill/proxies/apiproxy"
)

// zookeeper is the server for one run of a lock in it, with a proxy on the way of each of two replicas. lockdrill does not know of it: its
// faults are hooks, as those of cluster/.
type zookeeper struct {
	dir, addr string
	server    *exec.Cmd
	ways      []*apiproxy.Proxy // r1's first
	losing    []*zkProxy        // between each and the server
}

// onZooKeeper starts a server for a run, and tells the run's workers and hooks where it is; end ends it.
func onZooKeeper(run *exec.Cmd) (end func(), err error) {
	z := &zookeeper{}
	end = func() {
		for _, w := range z.ways {
			_ = w.Close()
		}
		for _, p := range z.losing {
			p.close()
		}
		_ = errors.Join(z.kill(), os.RemoveAll(z.dir))
	}
	if err := z.open(run); err != nil {
		end()
		return nil, fmt.Errorf("start a ZooKeeper: %w", err)
	}
	return end, nil
}

func (z *zookeeper) open(run *exec.Cmd) (err error) {
	if z.dir, err = os.MkdirTemp("", "wild-zookeeper-"); err != nil {
		return err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	z.addr = free.Addr().String()
	_, port, _ := net.SplitHostPort(z.addr)
	// A session is at least two ticks long, and its end is late by up to one.
	text := fmt.Sprintf("dataDir=%s/data\nclientPortAddress=127.0.0.1\nclientPort=%s\ntickTime=500\nadmin.enableServer=false\n", z.dir, port)
	if err := errors.Join(free.Close(), os.WriteFile(filepath.Join(z.dir, "zoo.cfg"), []byte(text), 0o644), z.start()); err != nil {
		return err
	}
	within, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := cluster.Until(within, "it does not answer", z.answers); err != nil {
		return err
	}
	var at []string
	for range 2 {
		p, err := newZKProxy(z.addr)
		if err != nil {
			return err
		}
		z.losing = append(z.losing, p)
		w := apiproxy.New(apiproxy.Options{Upstream: p.l.Addr().String()})
		z.ways = append(z.ways, w)
		addr, err := w.Listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		at = append(at, addr)
	}
	control := &http.Server{Handler: cluster.Hooks(z.fault)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = control.Serve(l) }()
	run.Env = append(os.Environ(), "WILD_ZOOKEEPER="+strings.Join(at, ","), "WILD_CLUSTER=http://"+l.Addr().String())
	return nil
}

func (z *zookeeper) start() error {
	log, err := os.OpenFile(filepath.Join(z.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	z.server = exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
		"org.apache.zookeeper.server.ZooKeeperServerMain", filepath.Join(z.dir, "zoo.cfg"))
	z.server.Stdout, z.server.Stderr = log, log
	return z.server.Start()
}

func (z *zookeeper) kill() error {
	if z.server == nil || z.server.Process == nil {
		return nil
	}
	_ = z.server.Process.Kill()
	_ = z.server.Wait() // it was killed
	return nil
}

// answers asks the server itself, by one of its words of four letters.
func (z *zookeeper) answers() bool {
	c, err := net.DialTimeout("tcp", z.addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if err := errors.Join(c.SetDeadline(time.Now().Add(time.Second)), write(c, "srvr")); err != nil {
		return false
	}
	said, _ := io.ReadAll(c)
	return strings.Contains(string(said), "Mode: standalone")
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// fault takes a step of a hook.
func (z *zookeeper) fault(ctx context.Context, what, step, id, victim string) error {
	of := func(replica int) bool { return victim == fmt.Sprintf("r%d", replica+1) }
	if lost, is := strings.CutPrefix(what, "lose-"); is {
		for i, p := range z.losing {
			if of(i) {
				return p.lose(ctx, lost, step)
			}
		}
	}
	if w, ok := cluster.Ways[what]; ok {
		w.ID = id
		var all []error
		for i, proxy := range z.ways {
			if w.All || of(i) {
				all = append(all, cluster.Strike(ctx, proxy, w.Fault, step))
			}
		}
		return errors.Join(all...)
	}
	switch what + " " + step {
	case "restart do":
		return errors.Join(z.kill(), z.start())
	case "empty do":
		return errors.Join(z.kill(), os.RemoveAll(filepath.Join(z.dir, "data")), z.start())
	case "restart confirm", "empty confirm":
		return cluster.Until(ctx, "it does not answer", z.answers)
	case "stop do":
		return z.kill()
	case "stop confirm":
		if z.answers() {
			return errors.New("it answers")
		}
		return nil
	case "stop undo":
		if z.server.ProcessState == nil { // it runs
			return nil
		}
		if err := z.start(); err != nil {
			return err
		}
		return cluster.Until(ctx, "it does not answer", z.answers)
	case "delete do":
		return z.delete()
	case "delete confirm":
		return nil
	}
	return fmt.Errorf("no fault is called %s, or it has no %s", what, step)
}

// delete deletes the holder's node: the one with the lowest number, which stands at the end of its name.
func (z *zookeeper) delete() error {
	c, _, err := zk.Connect([]string{z.addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer c.Close()
	nodes, _, err := c.Children(zkLock)
	if err != nil {
		return err
	}
	holder := ""
	for _, n := range nodes {
		if holder == "" || n[strings.LastIndex(n, "-"):] < holder[strings.LastIndex(holder, "-"):] {
			holder = n
		}
	}
	if holder == "" {
		return errors.New("nobody holds the lock")
	}
	return c.Delete(zkLock+"/"+holder, -1)
}
