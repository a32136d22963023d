package testbed

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	redisstores "github.com/lockdrill/lockdrill/stores/redis"
)

// role makes this test binary play a replica (or a runner) when it is started again as a child.
const role = "LOCKDRILL_BED_TEST_ROLE"

func TestMain(m *testing.M) {
	switch r := os.Getenv(role); r {
	case "":
		os.Exit(m.Run())
	case "runner":
		playRunner()
	default:
		playReplica(r)
	}
}

// playReplica obeys commands; its role is how it misbehaves.
func playReplica(how string) {
	if how == "deaf" {
		select {} // ended by SIGKILL
	}
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(nil, 1<<20)
	for commands.Scan() {
		var c protocol.Command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		switch c.Cmd {
		case protocol.CmdConfigure:
			say(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Incarnation: "an impostor"}})
			misbehave(how)
		case protocol.CmdOffer:
			ack(c.Offer.Job)
		case protocol.CmdStop:
			os.Exit(0)
		}
	}
	os.Exit(4) // standard input was closed without a stop
}

func misbehave(how string) {
	switch how {
	case "flood":
		for i := 0; ; i++ {
			ack(fmt.Sprint(i))
		}
	case "garbage":
		for range 30 {
			fmt.Println("not JSON")
		}
		fmt.Println(`{"kind":"ledger.entry"}`)
		fmt.Println(`{"kind":"work.enter"}`)
		fmt.Println(`{"kind":"job.ack","lock":"l","key":"k","job":{"id":"early"},"from":1,"to":1}`)
		late := monotime.Now() + int64(time.Hour)
		fmt.Printf(`{"kind":"job.ack","lock":"l","key":"k","job":{"id":"late"},"from":%d,"to":%d}`+"\n", late, late)
		now := monotime.Now()
		fmt.Printf(`{"kind":"job.ack","lock":"l","key":"k","job":{"id":"good"},"from":%d,"to":%d,"new":[1]}`+"\n", now, now)
		fmt.Println(strings.Repeat("x", lineLimit+1))
		fmt.Fprint(os.Stdout, `{"kind":"job.ack","torn`)
		fmt.Fprintln(os.Stderr, "something went wrong")
		os.Exit(7)
	case "parent", "runaway": // of a process that outlives it and holds its pipes, in a session of its own
		cmd := exec.Command("sleep", "600")
		cmd.Stdout, cmd.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: how == "runaway"}
		if err := cmd.Start(); err != nil {
			os.Exit(5)
		}
		ack(fmt.Sprint(cmd.Process.Pid))
	}
}

func ack(id string) {
	say(history.Event{Kind: history.JobAck, Lock: "l", Key: "k", Job: &history.Job{ID: id, Ack: history.AckDone}})
}

func stamped(e history.Event) history.Event {
	e.Span = history.At(monotime.Now())
	return e
}

func say(e history.Event) {
	line, err := json.Marshal(stamped(e))
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(6)
	}
}

// playRunner starts everything that a run starts, names the processes and the folder, and waits to be killed.
func playRunner() {
	ctx := context.Background()
	stores, err := redisstores.OpenStores(ctx, redisstores.Options{Redis: experiments.Redis{Mode: experiments.RedisSpawn}, Run: "killed", Dir: os.Getenv("LOCKDRILL_BED_TEST_DIR")})
	if err != nil {
		panic(err)
	}
	if err := os.Setenv(role, "deaf"); err != nil { // does not even notice that its standard input is closed
		panic(err)
	}
	fleet := NewFleet(FleetOptions{
		Command: []string{os.Args[0]}, Clock: monotime.Now, OnEvents: func([]history.Event) {}, OnExit: func(Exit) {},
	})
	pids := []any{stores.Locks.PID, stores.Ledger.PID}
	for i := range 3 {
		r, _, err := fleet.Start(ctx, protocol.Configure{Name: "r", Incarnation: fmt.Sprint("r.", i)})
		if err != nil {
			panic(err)
		}
		pids = append(pids, r.PID)
	}
	fmt.Println(pids...)
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {}
}
