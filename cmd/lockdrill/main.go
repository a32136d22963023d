package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // windows and blackouts name zones that a small image may not have
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
