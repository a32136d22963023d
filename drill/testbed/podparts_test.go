package testbed

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/linestream"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// deaf is what a worker says that would survive a SIGTERM from now on.
const deaf = "deaf"

// playPod is a worker in a pod, deaf to SIGTERM.
func playPod() {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println(deaf)
	p, err := linestream.Join(context.Background(), linestream.JoinOptions{
		Redis: &redis.Options{Addr: os.Getenv("LOCKS_AT")}, Fleet: os.Getenv("FLEET"),
		Pod: os.Getenv("LOCKDRILL_POD"), UID: os.Getenv("LOCKDRILL_POD_UID"), Log: os.Stdout,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	commands := bufio.NewScanner(p)
	commands.Buffer(nil, 1<<20)
	for commands.Scan() {
		var c protocol.Command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			os.Exit(3)
		}
		switch c.Cmd {
		case protocol.CmdConfigure:
			sayTo(p, history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Metrics: "127.0.0.1:1"}})
			fmt.Println("a line that is no event")
		case protocol.CmdOffer:
			sayTo(p, history.Event{Kind: history.JobAck, Lock: "l", Key: "k", Job: &history.Job{ID: c.Offer.Job, Ack: history.AckDone}})
		case protocol.CmdCrash:
			os.Exit(137)
		case protocol.CmdStop:
			_ = p.Close("")
			os.Exit(0)
		}
	}
	os.Exit(4)
}

// playApplier applies and waits to be killed.
func playApplier() {
	c, err := kube.Open(kube.Options{Kubeconfig: os.Getenv("KUBECONFIG"), Namespace: os.Getenv("NAMESPACE")})
	if err != nil {
		panic(err)
	}
	j, err := undo.Create(os.Getenv("JOURNAL"), undo.Header{Run: "killed"})
	if err != nil {
		panic(err)
	}
	if _, err := ApplyPods(context.Background(), PodStandOptions{Cluster: c, Run: "killed", Folder: "/f", Manifests: workers("killed"), Journal: j}); err != nil {
		panic(err)
	}
	fmt.Println("applied")
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {}
}

// workers are a Deployment of three and a ConfigMap beside it.
func workers(fleet string) [][]byte {
	return [][]byte{[]byte(`
apiVersion: v1
kind: ConfigMap
metadata: {name: lockdrill-` + fleet + `}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: lockdrill-` + fleet + `}
spec:
  replicas: 3
  selector: {matchLabels: {app: ` + fleet + `}}
  template:
    metadata: {labels: {app: ` + fleet + `}}
    spec:
      terminationGracePeriodSeconds: 30
      containers:
      - name: worker
        image: none
        env:
        - {name: FLEET, value: ` + fleet + `}
        - {name: LOCKDRILL_POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: LOCKDRILL_POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
`)}
}

func sayTo(w io.Writer, e history.Event) {
	line, err := json.Marshal(stamped(e))
	if err != nil {
		panic(err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		os.Exit(6)
	}
}

// log keeps what a fleet of pods tells.
type podLog struct {
	mu     sync.Mutex
	events []history.Event
	lines  map[string][]string
	cuts   map[string]int // stretches in which a replica's log was not followed
	news   chan struct{}
}

func newPodLog(clock func() int64, c *kube.Cluster, labels map[string]string) (*podLog, PodsOptions) {
	l := &podLog{lines: map[string][]string{}, cuts: map[string]int{}, news: make(chan struct{}, 1)}
	return l, PodsOptions{
		Cluster: c, Selector: labels, Clock: clock,
		OnEvent: func(e history.Event) { l.add(func() { l.events = append(l.events, e) }) },
		OnLine: func(inc string, line follow.Line) {
			l.add(func() { l.lines[inc] = append(l.lines[inc], string(line.Text)) })
		},
		OnCut: func(whose string, _ history.Span) { l.add(func() { l.cuts[whose]++ }) },
	}
}

func (l *podLog) add(f func()) {
	l.mu.Lock()
	f()
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// await waits for an event.
func (l *podLog) await(t *testing.T, what string, is func(history.Event) bool) history.Event {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		l.mu.Lock()
		for _, e := range l.events {
			if is(e) {
				l.mu.Unlock()
				return e
			}
		}
		l.mu.Unlock()
		select {
		case <-l.news:
		case <-limit:
			text, _ := json.MarshalIndent(l.events, "", " ")
			t.Fatalf("no %s: %s", what, text)
		}
	}
}

// each reports whether that holds of each of these replicas.
func (l *podLog) each(incs []string, holds func(inc string) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(incs, func(inc string) bool { return !holds(inc) })
}

func (l *podLog) count(is func(history.Event) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if is(e) {
			n++
		}
	}
	return n
}
