package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	_ "time/tzdata" // windows and blackouts name zones that a small image may not have
)

func main() {
	debug.SetTraceback("crash") // a panic and SIGQUIT end by SIGABRT: Go's own status is that of a wrong flag, after which nothing was touched
	unread(os.Args[1:])
	if os.Getpid() == 1 {
		os.Exit(supervise(os.Args))
	}
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
