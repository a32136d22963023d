package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

// standard renews every 10 s and gives the work up a second before its lease is over.
var standard = lockcore.Policy{
	TTL: 30 * time.Second, RenewEvery: 10 * time.Second, Class: lockcore.Standard, OpTimeout: 2 * time.Second,
	Drift: 300 * time.Millisecond, StopBudget: time.Second,
	Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 2 * time.Second},
	Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: 2 * time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
}

// Work under a lock: its context ends with the lock, and its writes carry the fence. A second client is refused meanwhile.
func ExampleClient_Do() {
	store := memstore.NewStore(nil) // redisstore.NewStore(...) in a service
	one, err := client.New(client.Options{Store: store, Policy: standard})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = one.Close(context.Background()) }()
	other, err := client.New(client.Options{Store: store, Policy: standard})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = other.Close(context.Background()) }()

	err = one.Do(context.Background(), "invoice:7", func(ctx context.Context, h *client.Handle) error {
		_, err := other.Acquire(ctx, "invoice:7")
		fmt.Println("the other is busy:", errors.Is(err, client.ErrBusy))
		if err := h.Check(); err != nil { // right before a side effect
			return err
		}
		fmt.Println("has a fence:", h.Fence() > 0, "and some 28 s left:", h.Remaining() > 20*time.Second)
		return ctx.Err()
	})
	fmt.Println("error:", err)

	h, err := other.Acquire(context.Background(), "invoice:7")
	fmt.Println("then the other has it:", err == nil)
	fmt.Println("and gives it back:", h.Release(context.Background()) == nil)
	// Output:
	// the other is busy: true
	// has a fence: true and some 28 s left: true
	// error: <nil>
	// then the other has it: true
	// and gives it back: true
}
