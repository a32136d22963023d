package main

import (
	"cmp"
	"context"
	"crypto/tls"
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

	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/proxies/apiproxy"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

type proxyFlags struct {
	listen   []string
	upstream string
	ca       string
	cert     string
	key      string
	api      string
	rules    string
	seed     int64
	verbose  bool
}

func newProxyCmd(io streams) *cobra.Command {
	var f proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy --upstream HOST:PORT",
		Short: "Stand between a client and its Redis, and make its lock operations fail on command",
		Long: "proxy understands the Redis protocol. It passes everything on, recognises when a lock is acquired, renewed and released, and\n" +
			"makes these operations fail as its API on loopback says. Each fault ends by itself. It runs until you interrupt it.\n" +
			"With --upstream https://HOST:PORT it stands before a Kubernetes API server, and makes that slow or away for electors that are\n" +
			"pointed at it; with --cert and --key it ends TLS itself, and can also refuse writes while reads are answered.\n" +
			"docs/faults.md has the rules, the faults and the API.",
		Example: "  lockdrill proxy --upstream 127.0.0.1:6379 --listen 127.0.0.1:6380",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runProxy(cmd.Context(), io, f) },
	}
	cmd.Flags().StringArrayVar(&f.listen, "listen", []string{"127.0.0.1:6380"}, "where clients connect, [NAME=]HOST:PORT; again with other names, to aim faults at some clients only")
	cmd.Flags().StringVar(&f.upstream, "upstream", "", "the Redis: HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT (TLS); or https://HOST:PORT, a Kubernetes API server")
	cmd.Flags().StringVar(&f.ca, "ca", "", "PEM file of the authority of a rediss:// or https:// upstream (default: the system's)")
	cmd.Flags().StringVar(&f.cert, "cert", "", "https:// only: PEM file of the certificate that clients are shown; TLS ends here then, and clients must send tokens, not certificates")
	cmd.Flags().StringVar(&f.key, "key", "", "PEM file of the key of --cert")
	cmd.Flags().StringVar(&f.api, "api", "127.0.0.1:6381", "where the API listens: HOST:PORT on loopback, or unix:PATH, a socket that only you can ask (on a machine that others use)")
	cmd.Flags().StringVar(&f.rules, "rules", "", "JSON file: which keys are locks, and further commands and scripts that are operations on them")
	cmd.Flags().Int64Var(&f.seed, "seed", 1, "seed of the choices of shares")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "a line for each connection and each operation that is made to fail")
	return cmd
}

// runProxy serves until the context ends.
func runProxy(ctx context.Context, io streams, f proxyFlags) error {
	if strings.HasPrefix(f.upstream, "https://") {
		return runAPIProxy(ctx, io, f)
	}
	if f.cert != "" || f.key != "" {
		return usagef("lockdrill proxy: --cert and --key are for an https:// upstream")
	}
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
	err = serveProxy(ctx, t.Listen, t.API(), f, addr, `{"op":"renew","mode":"timeout","count":3,"for":"30s"}`, say)
	return errors.Join(err, t.Close())
}

// runAPIProxy stands before an API server until the context ends.
func runAPIProxy(ctx context.Context, io streams, f proxyFlags) error {
	o, err := apiProxyOptions(f)
	if err != nil {
		return err
	}
	if err := reachable(ctx, o.Upstream); err != nil {
		return err
	}
	say, flush := printer(io.Err)
	defer flush()
	if f.verbose {
		o.Notify = say
	}
	p := apiproxy.New(o)
	listen := func(_, addr string) (string, error) { return p.Listen(addr) }
	err = serveProxy(ctx, listen, p.API(), f, "https://"+o.Upstream, `{"do":"slow","delay":"2s","for":"30s"}`, say)
	return errors.Join(err, p.Close())
}

func reachable(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("lockdrill proxy: the upstream %s cannot be reached: %w", addr, err)
	}
	return c.Close()
}

// apiProxyOptions are the flags, read and checked.
func apiProxyOptions(f proxyFlags) (o apiproxy.Options, err error) {
	u, err := url.Parse(f.upstream)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return o, usagef("lockdrill proxy: --upstream: want https://HOST:PORT and nothing else")
	case f.rules != "":
		return o, usagef("lockdrill proxy: --rules are of Redis: an https:// upstream has none")
	case (f.cert == "") != (f.key == ""):
		return o, usagef("lockdrill proxy: --cert and --key go together")
	case f.ca != "" && f.cert == "":
		return o, usagef("lockdrill proxy: --ca is for a proxy that ends TLS itself: give --cert and --key")
	}
	o.Upstream = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
	if f.cert == "" {
		return o, nil
	}
	own, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return o, usagef("lockdrill proxy: --cert, --key: %w", reason(err))
	}
	o.Written = drill.WrittenToLease
	o.Server = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	if o.Client, err = endpoint.Secure(u.Hostname(), f.ca, "", ""); err != nil {
		return o, usagef("lockdrill proxy: --%w", err)
	}
	return o, nil
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

func serveProxy(ctx context.Context, listen func(name, addr string) (string, error), handler http.Handler, f proxyFlags, upstream, example string, say func(string, ...any)) error {
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
		at, err := listen(name, addr)
		if err != nil {
			return usagef("lockdrill proxy: --listen %s: %w", l, err)
		}
		say("clients     point them at %s instead of %s (%s)", at, upstream, name)
	}
	ask, at := "curl", api.Addr().String()
	if api.Addr().Network() == "unix" {
		ask, at = "curl --unix-socket '"+strings.ReplaceAll(at, "'", `'\''`)+"'", "localhost"
	}
	say("faults      %s -H 'Content-Type: application/json' -d '%s' http://%s/faults", ask, example, at)
	say("seen        %s http://%s/stats", ask, at)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
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
		if secure, err = endpoint.Secure(u.Hostname(), f.ca, "", ""); err != nil {
			return "", nil, usagef("lockdrill proxy: --%w", err)
		}
	}
	return addr, func(ctx context.Context) (net.Conn, error) { return endpoint.DialPlain(ctx, addr, secure) }, nil
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
