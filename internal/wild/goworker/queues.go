package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// offer is a job that the runner has for a replica: it adds it to the queue, and whoever takes it from there does it.
type offer struct {
	Lock, Job, Key string
	Hold           time.Duration
}

// queue connects to its store, begins to work off what is there, and gives what adds a job. Which replica may do a job is the library's
// business: no claim is made about that, and what counts is what the ledger saw.
type queue func(ctx context.Context, w *worker) (add func(o offer) error, err error)

var queues = map[string]queue{
	"asynq":             openAsynq,
	"river":             openRiver(false, false),
	"river-apart":       openRiver(true, false),
	"river-apart-known": openRiver(true, true),
}

// atOnce is how many jobs a replica does at once.
const atOnce = 10

// do does a job.
func (w *worker) do(ctx context.Context, o offer) error {
	l := w.c.Configure.Locks[0]
	name, _ := lock{Name: o.Lock, Key: o.Key}.another()
	h := &hold{w: w, l: l, lost: ctx}
	h.named.Store(&name)
	op := w.op()
	w.say("work.enter", 0, name, event{"op": op, "work": event{"subject": o.Job}})
	why, done := "done", h.write(effect{o.Job, "begin", false, false})
	if done {
		select {
		case <-time.After(o.Hold):
		case <-ctx.Done():
			done, why = false, "stopped"
		}
	}
	done = done && h.write(effect{o.Job, "done", false, true})
	w.say("work.exit", 0, name, event{"op": op, "work": event{"subject": o.Job, "why": why}})
	if !done {
		return fmt.Errorf("job %s was not finished", o.Job)
	}
	w.say("job.ack", 0, event{"lock": o.Lock, "key": o.Key, "job": event{"id": o.Job, "ack": "done"}})
	return nil
}

// openAsynq runs a server and a client of asynq at their defaults. Its lease of 30 s and its look for lost jobs once a minute cannot be set.
func openAsynq(ctx context.Context, w *worker) (func(o offer) error, error) {
	at := asynq.RedisClientOpt{Addr: w.c.Configure.Store.Addr}
	client, server := asynq.NewClient(at), asynq.NewServer(at, asynq.Config{Concurrency: atOnce})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var o offer
		if err := json.Unmarshal(t.Payload(), &o); err != nil {
			return err
		}
		return w.do(ctx, o)
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
	return func(ctx context.Context, w *worker) (func(o offer) error, error) {
		at := w.c.Configure.Store
		pool, err := pgxpool.New(ctx, fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", at.User, at.Addr, at.Database))
		if err != nil {
			return nil, err
		}
		if err := migrate(ctx, pool); err != nil {
			return nil, err
		}
		name, workers := river.QueueDefault, river.NewWorkers()
		if apart {
			name = w.c.Configure.Name
		} else {
			river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, j *river.Job[offer]) error { return w.do(ctx, j.Args) }))
		}
		if known || name == "r1" {
			river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, j *river.Job[ofR1]) error { return w.do(ctx, j.Args.offer) }))
		}
		if known || name == "r2" {
			river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, j *river.Job[ofR2]) error { return w.do(ctx, j.Args.offer) }))
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
