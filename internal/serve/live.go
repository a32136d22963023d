package serve

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/serve/store"
	"github.com/lockdrill/lockdrill/reports"
)

//go:embed live.js
var liveScript []byte

const (
	liveLines  = 60                     // the last ones of a story
	followEach = 300 * time.Millisecond // look whether a history has grown
	liveWithin = 4 * time.Hour          // of one reader
	mostLive   = 32                     // readers at once
	refresh    = 5                      // seconds
)

func (s *Server) folder(name string) string { return filepath.Join(s.o.Dir, name) }

// running lists the drills that go on.
func (s *Server) running(w http.ResponseWriter, r *http.Request) {
	runs, err := s.store.Runs(r.Context(), store.Query{States: []store.State{store.Running}})
	if err != nil {
		s.broken(w, r, err)
		return
	}
	p := &reports.Page{Word: "LIVE", Title: "drills that go on", Site: s.Site("/live"), Refresh: refresh}
	if len(runs) == 0 {
		p.Sentences = []string{"No drill goes on in this folder."}
	} else {
		p.Sections = []reports.Section{runSection("Going on", runs)}
	}
	s.Page(w, r, http.StatusOK, p)
}

// livePage shows what a drill has said so far. With script it goes on by itself, without it is got anew.
func (s *Server) livePage(w http.ResponseWriter, r *http.Request) {
	run, err := s.store.Run(r.Context(), r.PathValue("folder"))
	if err != nil {
		s.broken(w, r, err)
		return
	}
	if run.State != store.Running {
		http.Redirect(w, r, runAddress(run.Folder), http.StatusSeeOther)
		return
	}
	table := &reports.Table{ID: "story", Label: "What the drill has said", Columns: []string{"time", "what", "said"}}
	err = s.story(r.Context(), run.Folder, false, func(cells []string) error {
		table.Rows = append(table.Rows, []reports.Cell{{Text: cells[0], Num: true}, {Text: cells[1]}, {Text: cells[2]}})
		if len(table.Rows) > liveLines {
			table.Rows = slices.Delete(table.Rows, 0, 1)
		}
		return nil
	})
	if err != nil {
		s.broken(w, r, err)
		return
	}
	s.Page(w, r, http.StatusOK, &reports.Page{
		Word: "RUNNING", Title: run.Experiment, Tally: run.Folder, Site: s.Site(""), Script: "/live.js", Refresh: refresh,
		Sections: []reports.Section{{ID: "live", Title: "What it says", Blocks: []reports.Block{{Table: table}}}},
	})
}

// liveEvents sends the same as it is said, until the drill has ended.
func (s *Server) liveEvents(w http.ResponseWriter, r *http.Request) {
	run, err := s.store.Run(r.Context(), r.PathValue("folder"))
	if err != nil {
		s.broken(w, r, err)
		return
	}
	select {
	case s.watchers <- struct{}{}:
		defer func() { <-s.watchers }()
	default:
		s.refuse(w, r, http.StatusServiceUnavailable, "too many readers of live drills")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), liveWithin)
	defer cancel()
	go func() { // ends with the request
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(event, data string) error {
		if err := out.SetWriteDeadline(time.Now().Add(requestsWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
			return err
		}
		return out.Flush()
	}
	err = s.story(ctx, run.Folder, run.State == store.Running, func(cells []string) error { return send("line", strings.Join(cells, "\t")) })
	if err == nil && ctx.Err() == nil {
		err = send("end", runAddress(run.Folder))
	}
	if err != nil && ctx.Err() == nil {
		s.Say("%s: %v", r.URL.Path, err)
	}
}

// story gives each line of a run's story, of three cells. It may follow the history until its end.
func (s *Server) story(ctx context.Context, folder string, follow bool, say func(cells []string) error) error {
	data, err := os.ReadFile(filepath.Join(s.folder(folder), s.o.Reader.Experiment))
	if err != nil {
		return err
	}
	e, err := experiments.Parse(s.o.Reader.Experiment, data)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(s.folder(folder), s.o.Reader.History))
	if err != nil {
		return err
	}
	defer f.Close()
	from := &growing{ctx: ctx, file: f, follow: follow}
	events, err := history.NewReader(from)
	if err != nil {
		return err
	}
	story := reports.NewStory(experiments.Scale(e))
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if line := story.Line(*event); line != "" {
			if err := say(cellsOf(line)); err != nil {
				return err
			}
		}
		if event.Kind == history.RunEnd {
			return nil
		}
	}
}

var gaps = regexp.MustCompile(` {2,}`)

// cellsOf splits a line of a story into time, what, and what was said.
func cellsOf(line string) []string {
	cells := gaps.Split(strings.TrimSpace(strings.ReplaceAll(line, "\n", " ")), 3)
	for len(cells) < 3 {
		cells = append(cells, "")
	}
	return cells
}

// growing is a file that somebody writes to: its end is that of ctx, or of a writer that has been silent for long.
type growing struct {
	ctx    context.Context
	file   *os.File
	follow bool
	silent time.Duration
}

func (g *growing) Read(p []byte) (int, error) {
	for {
		n, err := g.file.Read(p)
		if n > 0 {
			g.silent = 0
			return n, nil
		}
		if !errors.Is(err, io.EOF) || !g.follow || g.silent > quietAfter {
			return 0, err
		}
		wait := time.NewTimer(followEach)
		select {
		case <-g.ctx.Done():
			wait.Stop()
			return 0, io.EOF
		case <-wait.C:
			g.silent += followEach
		}
	}
}
