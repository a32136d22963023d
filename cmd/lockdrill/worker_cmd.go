package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/linestream"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
	"github.com/lockdrill/lockdrill/lockcore/mutants/cage"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/worker/embedded"
)

// Variables that a pod's template sets for its replica.
const (
	podEnv        = "LOCKDRILL_POD"          // its name, by the downward API
	podUIDEnv     = "LOCKDRILL_POD_UID"      // likewise
	ignoreTermEnv = "LOCKDRILL_IGNORE_TERM"  // 1: SIGTERM does nothing, as in a program that forgot it
	metricsEnv    = "LOCKDRILL_METRICS_ADDR" // host:port where it serves its metrics; unset: a free port of loopback
)

// joinFlags say which fleet a replica in a pod joins, and which lock it runs.
type joinFlags struct {
	url, fleet               string
	animal                   string
	usernameEnv, passwordEnv string
	ca                       string
}

// newWorkerCmd is the replica that the runner starts: the same binary, speaking the worker protocol on its standard streams, or from a
// pod, where it has none.
func newWorkerCmd(io streams) *cobra.Command {
	var f joinFlags
	cmd := &cobra.Command{
		Use:    "worker",
		Short:  "A replica on the lock core: the worker protocol over stdin and stdout, or a fleet's streams (docs/worker-protocol.md)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := embedded.Options{Metrics: os.Getenv(metricsEnv)}
			if (f.url == "") != (f.fleet == "") {
				return usagef("lockdrill worker: --join and --fleet go together")
			}
			if f.animal != "" {
				a, known := mutants.Find(f.animal)
				if !known {
					return usagef("lockdrill worker: --animal %s: there are %s", f.animal, strings.Join(mutants.Names(), ", "))
				}
				o.Wrong = cage.Of(a)
			}
			run := func() error { return embedded.Run(cmd.Context(), io.In, io.Out, o) }
			if f.url != "" {
				run = func() error { return joinFleet(cmd.Context(), io, f, o) }
			}
			if err := run(); err != nil {
				return fmt.Errorf("lockdrill worker: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.url, "join", "", "the Redis over which commands come: redis://HOST:PORT[/DB] or rediss://")
	cmd.Flags().StringVar(&f.animal, "animal", "", "a lock that is wrong on purpose, in place of the core's")
	cmd.Flags().StringVar(&f.fleet, "fleet", "", "name of the fleet there")
	cmd.Flags().StringVar(&f.usernameEnv, "username-env", "", "environment variable with the user's name of that Redis")
	cmd.Flags().StringVar(&f.passwordEnv, "password-env", "", "environment variable with its password")
	cmd.Flags().StringVar(&f.ca, "ca", "", "PEM file of the authority of a rediss:// server (default: the system's)")
	return cmd
}

// joinFleet is the life of a replica in a pod: from its hello to the end of a drill, or to SIGTERM. Its container starts the next.
func joinFleet(ctx context.Context, io streams, f joinFlags, o embedded.Options) error {
	where, err := f.endpoint()
	if err != nil {
		return usagef("lockdrill worker: %w", err)
	}
	dial, err := endpoint.Options(where)
	if err != nil {
		return usagef("lockdrill worker: %w", err)
	}
	if err := linestream.CheckFleet(f.fleet); err != nil {
		return usagef("lockdrill worker: --%w", err)
	}
	if os.Getenv(ignoreTermEnv) == "1" {
		signal.Ignore(syscall.SIGTERM)
	}
	name := os.Getenv(podEnv)
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return fmt.Errorf("find the pod's name: %w", err)
		}
	}
	pod, err := linestream.Join(ctx, linestream.JoinOptions{Redis: dial, Fleet: f.fleet, Pod: name, UID: os.Getenv(podUIDEnv), Log: io.Out})
	if ctx.Err() != nil && err != nil {
		return nil // told to end before anybody knew of it
	}
	if err != nil {
		return err
	}
	why := ""
	if err = embedded.Run(ctx, pod, pod, o); err != nil {
		why = err.Error()
	}
	return errors.Join(err, pod.Close(why))
}

// endpoint is the fleet's Redis.
func (f joinFlags) endpoint() (e protocol.Endpoint, err error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Hostname() == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return e, errors.New("--join: want redis://HOST:PORT[/DB] or rediss://HOST:PORT[/DB]") // the parser's words would show the URL
	}
	if u.User != nil || u.RawQuery != "" {
		return e, errors.New("--join: takes no user, password or options: they come by --username-env and --password-env")
	}
	e = protocol.Endpoint{Addr: u.Host, TLS: u.Scheme == "rediss", CA: f.ca, UsernameEnv: f.usernameEnv, PasswordEnv: f.passwordEnv}
	if u.Port() == "" {
		e.Addr = net.JoinHostPort(u.Hostname(), "6379")
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if e.DB, err = strconv.Atoi(db); err != nil || e.DB < 0 {
			return e, fmt.Errorf("--join: database %q is no number", db)
		}
	}
	return e, nil
}
