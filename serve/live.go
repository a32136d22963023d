package serve

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/internal/runs"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
)

const (
	liveLines = 60 // the last ones of a story
	refresh   = 5  // seconds
)

// running lists the drills that go on.
func (s *Server) running(w http.ResponseWriter, r *http.Request) error {
	all := s.index.Runs(runs.Query{States: []runs.State{runs.Running}})
	p := &doc.Document{Word: doc.Word{Text: "LIVE"}, Title: "drills that go on", Site: &doc.Site{Links: links("/live"), Refresh: refresh}}
	if len(all) == 0 {
		p.Lead = []string{"No drill goes on in this folder."}
	} else {
		p.Sections = []doc.Section{runSection("Going on", all)}
	}
	return s.page(w, r, http.StatusOK, p)
}

// livePage shows what a drill has said so far. The browser gets it anew until the drill is over.
func (s *Server) livePage(w http.ResponseWriter, r *http.Request) error {
	run, err := s.asked(r)
	if err != nil {
		return err
	}
	if run.State != runs.Running {
		http.Redirect(w, r, runAddress(run.Folder), http.StatusSeeOther)
		return nil
	}
	table := &doc.Table{ID: "story", Label: "What the drill has said", Columns: doc.Columns("time", "what", "said")}
	err = s.story(run.Folder, func(at, who, what string) {
		table.Row(doc.Cell{Text: at, Figure: true}, doc.Cell{Text: who}, doc.Cell{Text: what})
		if len(table.Rows) > liveLines {
			table.Rows = slices.Delete(table.Rows, 0, 1)
		}
	})
	if err != nil {
		return err
	}
	return s.page(w, r, http.StatusOK, &doc.Document{
		Word: doc.Word{Text: "RUNNING"}, Title: run.Experiment, Tally: run.Folder, Site: &doc.Site{Links: links(""), Refresh: refresh},
		Sections: []doc.Section{{ID: "live", Title: "What it says", Blocks: []doc.Block{{Table: table}}}},
	})
}

// story gives each line of a run's story so far.
func (s *Server) story(folder string, say func(at, who, what string)) error {
	data, err := regular.Read(filepath.Join(s.o.Dir, folder, s.o.Reader.Experiment))
	if err != nil {
		return err
	}
	e, err := experiments.ParseRun(s.o.Reader.Experiment, data)
	if err != nil {
		return err
	}
	f, err := regular.Open(filepath.Join(s.o.Dir, folder, s.o.Reader.History))
	if err != nil {
		return err
	}
	defer f.Close()
	events, err := history.NewReader(f)
	if err != nil {
		return err
	}
	story := reports.NewStory(experiments.Scale(e))
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if at, who, what := story.Told(*event); what != "" {
			say(at, who, what)
		}
	}
}
