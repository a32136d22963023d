package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/internal/runs"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/serve"
)

type serveFlags struct {
	dir, listen string
	access      serve.Access
	limits      serve.Limits
	reindex     bool
}

// gone is a flag that went: whoever gives it is told what stands in its place.
type gone string

func (g gone) Set(string) error { return errors.New(string(g)) }
func (g gone) Type() string     { return "gone" }
func (g gone) String() string   { return "" }

// drillsGo is said where somebody wants the server to run drills.
const drillsGo = "the server runs no drills any more: lockdrill export cronjob, export ci --schedule --approve and export job --suspend do (docs/schedules.md)"

func newServeCmd(io streams) *cobra.Command {
	f := serveFlags{limits: serve.DefaultLimits()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show the runs of a folder in the browser, and take in those of other machines",
		Long: "serve shows what the runs in a folder have said: pages, a live view of the drill that goes on, a JSON API, a gate for releases,\n" +
			"and metrics. It takes runs that other machines upload (lockdrill run --upload). The folder stays the truth: the index beside the\n" +
			"runs can be made anew from them. It starts no drills.\n\n" +
			"It listens on loopback, where everybody on this machine may read. Elsewhere it wants tokens.\n" +
			"Nothing can be changed without a token. docs/serve.md.",
		Example: "  lockdrill serve --dir runs\n  lockdrill serve --dir runs --listen 0.0.0.0:8420 --tokens tokens",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), io, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", runsFolder, "the folder of runs")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8420", "address to listen on, HOST:PORT; one that others can reach wants --tokens")
	flags.StringVar(&f.access.Tokens, "tokens", "", "file of tokens, as lockdrill serve token writes it")
	flags.StringSliceVar(&f.access.Hosts, "host", nil, "another name that the server is called by; requests to names it does not know are refused on loopback")
	flags.Int64Var(&f.limits.Upload, "most-upload", f.limits.Upload, "bytes of one uploaded run")
	flags.Int64Var(&f.limits.Disk, "most-disk", f.limits.Disk, "bytes of all runs in the folder, beyond which no upload is taken")
	flags.BoolVar(&f.reindex, "reindex", false, "forget the index, and read all runs again")
	for name, says := range map[string]gone{
		"schedule": drillsGo, "experiments": drillsGo, "address": "the server tells nobody any more: the exported alerts on drills do, by a route of the Alertmanager (docs/schedules.md)",
		"trust-header": "the server knows readers by tokens alone: let the proxy in front send Authorization: Bearer with one of the role read",
	} {
		flags.Var(says, name, "went")
		_ = flags.MarkHidden(name)
	}
	cmd.AddCommand(newServeTokenCmd(io))
	return cmd
}

func newServeTokenCmd(io streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "token NAME ROLE...",
		Short: "Make a token for the server, and note its sum in a file",
		Long: "token prints a new token once. The file keeps its name, its roles and its sum, not the token itself. Roles: read; upload (runs of\n" +
			"other machines). Remove the line to withdraw the token: it counts from the next request on.",
		Example: "  lockdrill serve token nightly upload --tokens tokens\n  lockdrill serve token alice read --tokens tokens",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if file == "" {
				return usagef("--tokens is missing: the file that keeps the token's sum, and that lockdrill serve --tokens reads")
			}
			secret, err := serve.AddToken(file, args[0], args[1:])
			if err != nil {
				return usagef("%w", err)
			}
			fmt.Fprintln(io.Out, secret)
			fmt.Fprintf(io.Err, "the token of %s (%s); it stands nowhere else\n", args[0], strings.Join(args[1:], ", "))
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "tokens", "", "the file; it is made where there is none")
	return cmd
}

// runServe serves until the context ends.
func runServe(ctx context.Context, io streams, f serveFlags) error {
	say, flush := printer(io.Err)
	defer flush()
	o := serve.Options{Dir: f.dir, Listen: f.listen, Access: f.access, Limits: f.limits, Reindex: f.reindex, Reader: runReader(), Say: func(line string) { say("%s", line) }}
	if err := o.Check(); err != nil {
		return usagef("%w", err)
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return usagef("--listen: %w", err)
	}
	o.Listen = l.Addr().String()
	s, err := serve.Open(o)
	if err != nil {
		if errors.Is(err, runs.ErrServed) {
			err = usagef("%w", err)
		}
		return errors.Join(err, l.Close())
	}
	say("serving %s at http://%s", f.dir, o.Listen)
	return errors.Join(s.Run(ctx, l), s.Close())
}

// runReader reads and judges the runs of a folder for the server, and writes nothing into them.
func runReader() serve.Reader {
	quiet := streams{Err: stdio.Discard}
	return serve.Reader{
		Reader:  indexReader(func(_ context.Context, dir string) (*compare.Observed, error) { return observe(quiet, dir) }),
		Compare: compare.CompareOptions{Alpha: compareAlpha, Tolerance: compareTolerance},
		Page: func(_ context.Context, dir string) (*doc.Document, error) {
			r, err := readRun(stdio.Discard, dir, judgesAnew)
			if err != nil {
				return nil, err
			}
			return reports.Page(r)
		},
		Report: func(_ context.Context, w stdio.Writer, dir, name string) error {
			all := formats()
			i := slices.IndexFunc(all, func(f format) bool { return f.name == name })
			if i < 0 || name == "html" {
				return serve.ErrFormat
			}
			r, err := readRun(stdio.Discard, dir, judgesAnew)
			if err != nil {
				return err
			}
			return all[i].write(w, r, reports.Options{})
		},
	}
}

// tokenFrom reads a token from a file, or else from the environment: on a command line others could read it.
func tokenFrom(file, variable string) (string, error) {
	if file == "" {
		return os.Getenv(variable), nil
	}
	data, err := os.ReadFile(file)
	return strings.TrimSpace(string(data)), err
}
