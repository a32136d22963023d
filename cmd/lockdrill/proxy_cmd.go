package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	stdio "io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore"
)

type proxyFlags struct {
	listen   []string
	upstream string
	ca       string
	api      string
	rules    string
	seed     int64
	verbose  bool
}

func newProxyCmd(io streams) *cobra.Command {
	var f proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy --upstream HOST:PORT",
		Short: "Stand between any client and its Redis, and make its lock operations fail when told to",
		Long: "A proxy that understands the Redis protocol: it passes everything on, recognises acquires, renewals and releases of locks,\n" +
			"and makes them fail as it is told over its API on loopback. Each fault ends by itself. It runs until it is interrupted.\n" +
			"docs/faults.md has the rules, the faults and the API.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runProxy(cmd.Context(), io, f) },
	}
	cmd.Flags().StringArrayVar(&f.listen, "listen", []string{"127.0.0.1:6380"}, "where clients connect, [NAME=]HOST:PORT; again with other names, to aim faults at some clients only")
	cmd.Flags().StringVar(&f.upstream, "upstream", "", "the Redis: HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT (TLS)")
	cmd.Flags().StringVar(&f.ca, "ca", "", "PEM file of the authority of a rediss:// upstream (default: the system's)")
	cmd.Flags().StringVar(&f.api, "api", "127.0.0.1:6381", "where the API listens: HOST:PORT on loopback, or unix:PATH, a socket that only you can ask (on a machine that others use)")
	cmd.Flags().StringVar(&f.rules, "rules", "", "JSON file: which keys are locks, and further commands and scripts that are operations on them")
	cmd.Flags().Int64Var(&f.seed, "seed", 1, "seed of the choices of shares")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "a line for each connection and each operation that is made to fail")
	return cmd
}

// runProxy serves until the context ends.
func runProxy(ctx context.Context, io streams, f proxyFlags) error {
	addr, dial, err := proxyUpstream(f)
	if err != nil {
		return err
	}
	rules, err := readRules(f.rules)
	if err != nil {
		return err
	}
	test, err := dial(ctx)
	if err != nil {
		return fmt.Errorf("lockdrill proxy: the upstream %s cannot be reached: %w", addr, err)
	}
	_ = test.Close()

	say, flush := printer(io.Err)
	defer flush()
	o := tap.Options{Dial: dial, Clock: monotime.Now, Rules: rules, Seed: f.seed}
	if f.verbose {
		o.Notify = func(name, text string) { say("%s: %s", name, text) }
		o.OnHit = func(h tap.Hit) {
			say("%s: %s: %s of %s made to fail, hit %d%s", h.Name, h.Fault, h.Op, h.Key, h.N, tokenOf(h))
		}
	}
	t := tap.New(o)
	err = serveProxy(ctx, t, f, addr, say)
	return errors.Join(err, t.Close())
}

// printer returns what prints a line without ever waiting for whoever reads: lines that find no room are counted. The second function
// prints what is left and ends it.
func printer(w stdio.Writer) (say func(string, ...any), flush func()) {
	const room = 1000
	lines, done := make(chan string, room), make(chan struct{})
	var lost atomic.Int64
	go func() {
		defer close(done)
		for l := range lines {
			if n := lost.Swap(0); n > 0 {
				l = fmt.Sprintf("(%s not shown)\n%s", figures.Plural(n, "line"), l)
			}
			fmt.Fprintln(w, l)
		}
	}()
	say = func(format string, args ...any) {
		select {
		case lines <- fmt.Sprintf(format, args...):
		default:
			lost.Add(1)
		}
	}
	return say, func() {
		close(lines)
		select {
		case <-done:
		case <-time.After(time.Second): // nobody reads
		}
	}
}

// tokenOf tells tokens apart without telling them.
func tokenOf(h tap.Hit) string {
	if h.Token == "" {
		return ""
	}
	return ", token " + lockcore.Fingerprint(h.Token)
}

func serveProxy(ctx context.Context, t *tap.Tap, f proxyFlags, upstream string, say func(string, ...any)) error {
	api, err := tap.ListenAPI(f.api)
	if err != nil {
		return usagef("lockdrill proxy: --api: %w", err)
	}
	defer api.Close()
	for _, l := range f.listen {
		name, addr, named := strings.Cut(l, "=")
		if !named {
			name, addr = "default", l
		}
		at, err := t.Listen(name, addr)
		if err != nil {
			return usagef("lockdrill proxy: --listen %s: %w", l, err)
		}
		say("clients     point them at %s instead of %s (%s)", at, upstream, name)
	}
	ask, at := "curl", api.Addr().String()
	if api.Addr().Network() == "unix" {
		ask, at = "curl --unix-socket '"+strings.ReplaceAll(at, "'", `'\''`)+"'", "localhost"
	}
	say("faults      %s -H 'Content-Type: application/json' -d '{\"op\":\"renew\",\"mode\":\"timeout\",\"count\":3,\"for\":\"30s\"}' http://%s/faults", ask, at)
	say("seen        %s http://%s/stats", ask, at)
	server := &http.Server{Handler: t.API(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(api) }()
	select {
	case <-ctx.Done():
	case err := <-done:
		return fmt.Errorf("lockdrill proxy: serve the API: %w", err)
	}
	_ = server.Close()
	<-done
	say("interrupted: all faults have ended; clients lose their connections")
	return nil
}

// proxyUpstream is the Redis behind the proxy, and how it is dialled.
func proxyUpstream(f proxyFlags) (addr string, dial func(context.Context) (net.Conn, error), err error) {
	text := f.upstream
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	switch {
	case f.upstream == "":
		return "", nil, usagef("lockdrill proxy: --upstream is missing: the Redis of the clients, as --upstream redis:6379")
	case err != nil || u.Hostname() == "" || u.Scheme != "redis" && u.Scheme != "rediss":
		return "", nil, usagef("lockdrill proxy: --upstream: want HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT")
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return "", nil, usagef("lockdrill proxy: --upstream: want a host and a port only: clients introduce themselves and choose their database through the proxy")
	case f.ca != "" && u.Scheme != "rediss":
		return "", nil, usagef("lockdrill proxy: --ca is for a rediss:// upstream")
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	addr = net.JoinHostPort(u.Hostname(), port)
	var secure *tls.Config
	if u.Scheme == "rediss" {
		secure = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		if f.ca != "" {
			pem, err := os.ReadFile(f.ca)
			if err != nil {
				return "", nil, usagef("lockdrill proxy: --ca %s: %w", f.ca, reason(err))
			}
			secure.RootCAs = x509.NewCertPool()
			if !secure.RootCAs.AppendCertsFromPEM(pem) {
				return "", nil, usagef("lockdrill proxy: --ca %s: it has no certificate in PEM form", f.ca)
			}
		}
	}
	return addr, func(ctx context.Context) (net.Conn, error) { return drill.DialPlain(ctx, addr, secure) }, nil
}

// readRules reads the rules beside those of the lock core's own scripts.
func readRules(path string) (rules tap.Rules, err error) {
	if path == "" {
		return tap.Rules{Scripts: drill.CoreScripts()}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return rules, usagef("lockdrill proxy: --rules %s: %w", path, reason(err))
	}
	var problems []tap.Problem
	if p := tap.DecodeStrict(data, &rules); p != nil {
		problems = []tap.Problem{*p}
	} else {
		problems = rules.Check()
	}
	if len(problems) > 0 {
		var b strings.Builder
		for _, p := range problems {
			fmt.Fprintf(&b, "\n  %s: %s; %s", p.Field, p.Problem, p.Remedy)
		}
		return rules, usagef("lockdrill proxy: --rules %s:%s", path, b.String())
	}
	rules.Scripts = append(rules.Scripts, drill.CoreScripts()...)
	return rules, nil
}
