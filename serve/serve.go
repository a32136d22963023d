// Package serve shows the runs of a folder over HTTP, and takes in the runs of other machines. Pages and answers are made from what the
// runs' histories say, by a reader that is handed in.
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
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/internal/runs"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Reader reads what lies in the folder of a run.
type Reader struct {
	runs.Reader
	Page    func(ctx context.Context, dir string) (*doc.Document, error)     // its report, made anew
	Report  func(ctx context.Context, w io.Writer, dir, format string) error // a report in another form, made anew; ErrFormat
	Compare compare.CompareOptions
}

// ErrFormat is that of a report in a form that there is not.
var ErrFormat = errors.New("unknown format")

// Options of a server.
type Options struct {
	Dir     string // the folder of runs
	Listen  string // address, as it was bound
	Reader  Reader
	Access  Access
	Limits  Limits
	Reindex bool         // forget the index, and read all runs again
	Say     func(string) // one line of a log
}

// Server is one server over one folder.
type Server struct {
	o     Options
	index *runs.Index
	mux   *http.ServeMux

	stopping chan struct{} // closed when the server begins to stop
	look     chan struct{} // a run was added: no need to wait for the next look
	looked   chan struct{} // closed after the first look over the folder
	judging  chan struct{} // holds a token for each run that is being read
	metrics  *metrics
	ingest   ingest
}

// Check refuses options that no server can have, before anything is touched.
func (o *Options) Check() error {
	if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: no such folder: --dir names the folder of the runs, which may be empty", o.Dir)
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
func Open(o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &Server{o: o, mux: http.NewServeMux(), stopping: make(chan struct{}), look: make(chan struct{}, 1), looked: make(chan struct{}), judging: make(chan struct{}, 2)}
	reader := o.Reader.Reader
	reader.Observe = func(ctx context.Context, dir string) (seen *compare.Observed, err error) {
		err = s.judged(ctx, func() error { seen, err = o.Reader.Observe(ctx, dir); return err })
		return seen, err
	}
	var err error
	if s.index, err = runs.Open(o.Dir, fmt.Sprintf("process %d, %s", os.Getpid(), o.Listen), reader, o.Reindex, o.Say); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	if err := s.openIngest(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.pages()
	s.api()
	return s, nil
}

func (s *Server) say(format string, args ...any) { s.o.Say(fmt.Sprintf(format, args...)) }

// handle adds a page or an answer for those who have the role. Handlers read whom they serve with by. What they return is answered: a refusal
// by its status, to a program as JSON and to a person as a page, and any other error by the log.
func (s *Server) handle(pattern string, need Role, handler func(http.ResponseWriter, *http.Request) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		r, err := s.admit(w, r, need)
		if err == nil {
			err = handler(w, r)
		}
		no := new(refusal)
		switch {
		case err == nil, r.Context().Err() != nil: // whoever asked has gone
			return
		case !errors.As(err, &no):
			s.say("%s %s: %v", r.Method, r.URL.Path, err)
			no = &refusal{http.StatusInternalServerError, "the server could not do what this asks: its log says why"}
		}
		if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics" {
			s.json(w, no.code, struct {
				SchemaVersion int    `json:"schemaVersion"`
				Error         string `json:"error"`
			}{1, no.why})
			return
		}
		s.page(w, r, no.code, &doc.Document{Word: doc.Word{Text: fmt.Sprint(no.code), Tone: doc.Bad}, Title: http.StatusText(no.code), Lead: []string{strings.ToUpper(no.why[:1]) + no.why[1:] + "."}, Site: &doc.Site{Links: links("")}})
	})
}

// refusal is an answer to what is not done.
type refusal struct {
	code int
	why  string
}

func (r *refusal) Error() string { return r.why }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

const (
	lookEvery      = 2 * time.Second
	restOfLooks    = 20               // times as long as a look took: a large folder costs a twentieth of a core
	requestsWithin = 10 * time.Second // that are under way when the server stops
)

// keepIndex holds the index against the folder, until ctx ends.
func (s *Server) keepIndex(ctx context.Context) error {
	for first := true; ; first = false {
		from := time.Now()
		if err := s.index.Look(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("index: %w", err)
		}
		if first {
			close(s.looked)
		}
		next := time.NewTimer(max(lookEvery, restOfLooks*time.Since(from)))
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case <-next.C:
		case <-s.look:
			next.Stop()
		}
	}
}

// Run serves until ctx ends or the folder breaks; then it lets requests come to their end.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var broken, failed error
	wg.Go(func() {
		broken = s.keepIndex(ctx)
		cancel()
	})
	server := &http.Server{Handler: s.headers(s.mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	wg.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed = err
		}
		cancel()
	})
	<-ctx.Done()
	close(s.stopping)
	last, end := context.WithTimeout(context.WithoutCancel(ctx), requestsWithin)
	defer end()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close() // requests that take longer are cut off
	}
	wg.Wait()
	return errors.Join(broken, failed)
}

// Close frees the folder.
func (s *Server) Close() error { return s.index.Close() }

// judged reads a run when it is its turn: a history may be large.
func (s *Server) judged(ctx context.Context, read func() error) error {
	select {
	case s.judging <- struct{}{}:
		defer func() { <-s.judging }()
		return read()
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopping:
		return errors.New("the server is stopping")
	}
}
