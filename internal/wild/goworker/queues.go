package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

// offer is a job that the runner has for a replica: it adds it to the queue, and whoever takes it from there does it.
type offer struct{ protocol.Offer }

// queue connects to its store, begins to work off what is there, and gives what adds a job. Which replica may do a job is the library's
// business: no claim is made about that, and what counts is what the ledger saw.
type queue func(ctx context.Context, j *jobs) (add func(o offer) error, err error)

var queues = map[string]queue{
	"asynq":             openAsynq,
	"river":             openRiver(false, false),
	"river-apart":       openRiver(true, false),
	"river-apart-known": openRiver(true, true),
}

// atOnce is how many jobs a replica does at once.
const atOnce = 10

// jobs are those that the library hands to this replica. It is a Locker that has no lock: the engine sees no offer.
type jobs struct {
	who    protocol.Configure
	tell   *worker.Teller
	ledger lockcore.Ledger
}

func (*jobs) Acquire(context.Context, worker.Want) (worker.Held, error) {
	return nil, errors.New("a queue has no lock")
}

// runQueue takes the offers out of the commands, and leaves the rest to the engine.
func runQueue(ctx context.Context, in io.Reader, begin queue) error {
	commands, rest := io.Pipe()
	begun := make(chan func(o offer) error, 1)
	go func() {
		var add func(o offer) error
		for lines := bufio.NewReader(in); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				_ = rest.CloseWithError(err)
				return
			}
			var c protocol.Command
			if err := json.Unmarshal(line, &c); err != nil || c.Offer == nil {
				_, _ = rest.Write(line)
				continue
			}
			if add == nil {
				add = <-begun
			}
			if err := add(offer{*c.Offer}); err != nil {
				fmt.Fprintln(os.Stderr, "add:", err) // the job is lost, as for any caller that does not ask again
			}
		}
	}()
	return worker.Run(ctx, commands, os.Stdout, func(_ context.Context, c protocol.Configure, t *worker.Teller) (worker.Locker, error) {
		j := &jobs{c, t, redisstore.NewLedger(redis.NewClient(&redis.Options{Addr: c.Ledger.Addr}), c.Ledger.Prefix)}
		add, err := begin(ctx, j)
		begun <- add
		return j, err
	}, worker.Options{})
}

// do does a job.
func (j *jobs) do(ctx context.Context, o offer) error {
	who, _ := another(worker.Want{Lock: protocol.Lock{Name: o.Lock}, Key: o.Key})
	say := func(k history.Kind, from int64, fill func(e *history.Event)) {
		e := who.Event(k, history.Span{From: from, To: monotime.Now()})
		fill(&e)
		j.tell.Say(e)
	}
	write := func(state string, terminal bool) bool {
		op := j.tell.Op("write")
		for range 3 {
			body, from := history.Write{Subject: o.Job, State: state, Terminal: terminal}, monotime.Now()
			say(history.WriteInvoke, from, func(e *history.Event) { e.Op, e.Write = op, &body })
			r, err := j.ledger.Write(context.Background(), lockcore.Effect{Key: o.Key, Subject: o.Job, State: state, Terminal: terminal,
				Epoch: who.Epoch, Op: op, Writer: j.who.Incarnation, Unfenced: true, Strict: j.who.Locks[0].Strict})
			back, outcome := body, history.Unknown
			if err == nil {
				outcome, back.Accepted, back.Reason, back.Current = history.OK, r.Accepted, r.Reason, r.Before.State
			}
			say(history.WriteReturn, from, func(e *history.Event) { e.Op, e.Outcome, e.Write = op, outcome, &back })
			if err == nil {
				return r.Accepted
			}
		}
		return false
	}
	op, why := j.tell.Op("work"), "done"
	say(history.WorkEnter, monotime.Now(), func(e *history.Event) { e.Op, e.Work = op, &history.Work{Subject: o.Job} })
	done := write(history.StateBegin, false)
	if done {
		select {
		case <-time.After(o.Hold):
		case <-ctx.Done():
			done, why = false, "stopped"
		}
	}
	done = done && write("done", true)
	say(history.WorkExit, monotime.Now(), func(e *history.Event) { e.Op, e.Work = op, &history.Work{Subject: o.Job, Why: why} })
	if !done {
		return fmt.Errorf("job %s was not finished", o.Job)
	}
	say(history.JobAck, monotime.Now(), func(e *history.Event) { e.Epoch, e.Job = "", &history.Job{ID: o.Job, Ack: history.AckDone} })
	return nil
}

// openAsynq runs a server and a client of asynq at their defaults. Its lease of 30 s and its look for lost jobs once a minute cannot be set.
func openAsynq(ctx context.Context, j *jobs) (func(o offer) error, error) {
	at := asynq.RedisClientOpt{Addr: j.who.Store.Addr}
	client, server := asynq.NewClient(at), asynq.NewServer(at, asynq.Config{Concurrency: atOnce})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var o offer
		if err := json.Unmarshal(t.Payload(), &o); err != nil {
			return err
		}
		return j.do(ctx, o)
	}))
	return func(o offer) error {
		text, err := json.Marshal(o)
		if err == nil {
			_, err = client.EnqueueContext(ctx, asynq.NewTask("job", text))
		}
		return err
	}, err
}

// Kind names the jobs of river; those of r1 and r2 are each for that replica alone.
func (offer) Kind() string { return "job" }

type (
	ofR1 struct{ offer }
	ofR2 struct{ offer }
)

func (ofR1) Kind() string { return "r1" }
func (ofR2) Kind() string { return "r2" }

// openRiver runs a client of river. A job is stuck an hour after its start by default, which is 60 times its timeout of a minute: here 12 s
// after, with a timeout of 10 s, and the leader looks for such jobs every 30 s, which cannot be set. apart: each replica has a queue of its
// own, and registers the jobs of that queue; known: those of the other one as well.
func openRiver(apart, known bool) queue {
	return func(ctx context.Context, j *jobs) (func(o offer) error, error) {
		at := j.who.Store
		pool, err := pgxpool.New(ctx, fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", at.User, at.Addr, at.Database))
		if err != nil {
			return nil, err
		}
		if err := migrate(ctx, pool); err != nil {
			return nil, err
		}
		name, workers := river.QueueDefault, river.NewWorkers()
		if apart {
			name = j.who.Name
		} else {
			river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, r *river.Job[offer]) error { return j.do(ctx, r.Args) }))
		}
		if known || name == "r1" {
			river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, r *river.Job[ofR1]) error { return j.do(ctx, r.Args.offer) }))
		}
		if known || name == "r2" {
			river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, r *river.Job[ofR2]) error { return j.do(ctx, r.Args.offer) }))
		}
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
			Workers: workers, Queues: map[string]river.QueueConfig{name: {MaxWorkers: atOnce}},
			JobTimeout: 10 * time.Second, RescueStuckJobsAfter: 12 * time.Second,
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err == nil {
			err = client.Start(context.WithoutCancel(ctx))
		}
		return func(o offer) error {
			var args river.JobArgs = o
			switch name {
			case "r1":
				args = ofR1{o}
			case "r2":
				args = ofR2{o}
			}
			_, err := client.Insert(ctx, args, &river.InsertOpts{Queue: name})
			return err
		}, err
	}
}

// migrate makes river's tables; one replica after the other.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	const turn = 7077
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", turn); err != nil {
		return err
	}
	defer func() { _, _ = c.Exec(ctx, "SELECT pg_advisory_unlock($1)", turn) }()
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
}
