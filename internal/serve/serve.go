// Package serve shows the runs of a folder over HTTP, and takes in the runs of other machines. Pages and answers are made from what the
// runs' histories say, by a reader that is handed in; other parts of the product add their own pages and background jobs.
//
// Its one invariant: without a token nothing can be changed, and what was uploaded is data: it is judged anew, never run, and never
// served as it came.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/internal/serve/store"
	"github.com/lockdrill/lockdrill/reports"
)

// Reader reads what lies in the folder of a run.
type Reader struct {
	Experiment, History string                                                           // names of the files that a run's conclusion rests on
	Tool                string                                                           // with its version: what another one concluded is concluded anew
	Observe             func(ctx context.Context, dir string) (*compare.Observed, error) // reads and judges one run
	Page                func(ctx context.Context, w io.Writer, dir string, site []reports.Link) error
	Report              func(ctx context.Context, w io.Writer, dir, format string) error // a report in another form, made anew; ErrFormat
	Compare             compare.CompareOptions
}

// ErrFormat is that of a report in a form that there is not.
var ErrFormat = errors.New("unknown format")

// Options of a server.
type Options struct {
	Dir    string // the folder of runs
	Listen string // address, as it was bound
	Reader Reader
	Access Access
	Limits Limits
	Say    func(string) // one line of a log
	Parts  []Part
}

// Part adds pages and background jobs to a server that is not listening yet.
type Part func(ctx context.Context, s *Server) error

// Server is one server over one folder. It is set up by one goroutine.
type Server struct {
	o     Options
	store *store.Store
	mux   *http.ServeMux
	nav   []reports.Link
	home  []func(context.Context) ([]reports.Section, error)
	jobs  []job
	hear  []func(run store.Run, before string)

	stopping chan struct{} // closed when the server begins to stop
	look     chan struct{} // a run was added: no need to wait for the next look
	looked   chan struct{} // closed after the first look over the folder
	judging  chan struct{} // holds a token for each run that is being read
	watchers chan struct{} // and for each reader of a drill that goes on
	metrics  *metrics
	ingest   ingest
}

type job struct {
	name string
	run  func(context.Context) error
}

// Check refuses options that no server can have, before anything is touched.
func (o *Options) Check() error {
	if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: no such folder; runs are in a folder such as runs", o.Dir)
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return fmt.Errorf("--listen %q: want HOST:PORT, such as 127.0.0.1:8420", o.Listen)
	}
	if o.Limits.Upload <= 0 || o.Limits.Disk <= 0 {
		return errors.New("limits of uploads are more than 0 bytes")
	}
	return o.Access.check(o.Listen)
}

// Open takes the folder, opens the index and puts the pages together. Close ends what Run does not.
func Open(ctx context.Context, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, o.Dir, fmt.Sprintf("process %d, %s", os.Getpid(), o.Listen))
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, store: st, mux: http.NewServeMux(), stopping: make(chan struct{}), look: make(chan struct{}, 1), looked: make(chan struct{}), judging: make(chan struct{}, 2), watchers: make(chan struct{}, mostLive)}
	s.nav = []reports.Link{{Text: "Runs", Address: "/"}, {Text: "Live", Address: "/live"}}
	s.metrics = newMetrics(s)
	if err := s.openIngest(ctx); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	s.Go("index", s.index)
	s.pages()
	s.api()
	for _, add := range o.Parts {
		if err := add(ctx, s); err != nil {
			return nil, errors.Join(err, st.Close())
		}
	}
	return s, nil
}

// Store is the database of the served folder.
func (s *Server) Store() *store.Store { return s.store }

// Dir is the served folder.
func (s *Server) Dir() string { return s.o.Dir }

// Say writes a line of the server's log.
func (s *Server) Say(format string, args ...any) { s.o.Say(fmt.Sprintf(format, args...)) }

// Handle adds a page or an answer for those who have the role. Handlers read whom they serve with By.
func (s *Server) Handle(pattern string, need Role, handler http.HandlerFunc) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if r, ok := s.admit(w, r, need); ok {
			handler(w, r)
		}
	})
}

// Go adds a background job. It starts with Run, ends when its context does, and is waited for; an error of its own stops the server.
func (s *Server) Go(name string, run func(context.Context) error) {
	s.jobs = append(s.jobs, job{name, run})
}

// Nav adds an entry to the links at the top of every page.
func (s *Server) Nav(text, address string) {
	s.nav = append(s.nav, reports.Link{Text: text, Address: address})
}

// Home adds sections to the top of the first page.
func (s *Server) Home(sections func(context.Context) ([]reports.Section, error)) {
	s.home = append(s.home, sections)
}

// Uploads hears of each uploaded run when it has been judged. before is what the run before it of its experiment came to; "" = there is none.
func (s *Server) Uploads(hear func(run store.Run, before string)) { s.hear = append(s.hear, hear) }

// Looked makes the server look over its folder now: a run was added or has ended.
func (s *Server) Looked() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// Handler is all that the server answers.
func (s *Server) Handler() http.Handler { return s.headers(s.mux) }

const (
	requestsWithin = 10 * time.Second // that are under way when the server stops
	jobsWithin     = 5 * time.Minute  // a drill that is stopped undoes its faults first
)

// Run serves until ctx ends or a job breaks; then it lets requests and jobs come to their end.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var broken error
	var open []string
	for _, j := range s.jobs {
		open = append(open, j.name)
		wg.Go(func() {
			err := j.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			open = slices.DeleteFunc(open, func(n string) bool { return n == j.name })
			if err != nil && ctx.Err() == nil {
				broken = errors.Join(broken, fmt.Errorf("%s: %w", j.name, err))
				cancel()
			}
		})
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	wg.Go(func() {
		err := server.Serve(l)
		if !errors.Is(err, http.ErrServerClosed) {
			failed <- err
			cancel()
		}
	})
	<-ctx.Done()
	close(s.stopping)
	last, end := context.WithTimeout(context.WithoutCancel(ctx), requestsWithin)
	defer end()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close() // those that are left had their time
	}
	ended := make(chan struct{})
	go func() { // ends with the jobs
		defer close(ended)
		wg.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(jobsWithin):
		mu.Lock()
		defer mu.Unlock()
		return fmt.Errorf("still at work %s after the server was stopped: %v", jobsWithin, open)
	}
	select {
	case err := <-failed:
		return err
	default:
		return broken
	}
}

// Close closes the index and frees the folder.
func (s *Server) Close() error { return s.store.Close() }
