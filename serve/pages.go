package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/runs"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// pages are for people. Each can be read without script, and with none but this server.
func (s *Server) pages() {
	s.handle("GET /{$}", Read, s.overview)
	s.handle("GET /experiments/{name}", Read, s.experiment)
	s.handle("GET /runs/{folder}", Read, s.run)
	s.handle("GET /runs/{folder}/{format}", Read, s.report)
	s.handle("GET /live", Read, s.running)
	s.handle("GET /live/{folder}", Read, s.livePage)
	s.handle("/", Read, func(http.ResponseWriter, *http.Request) error {
		return refuse(http.StatusNotFound, "there is no such page")
	})
}

// links are those at the top of a page at an address.
func links(here string) []doc.Link {
	all := []doc.Link{{Text: "Runs", Address: "/"}, {Text: "Live", Address: "/live"}}
	for i := range all {
		all[i].Here = all[i].Address == here
	}
	return all
}

// page writes a page.
func (s *Server) page(w http.ResponseWriter, r *http.Request, code int, d *doc.Document) error {
	text, err := doc.HTML(d)
	if err != nil {
		s.say("%s: %v", r.URL.Path, err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return nil
	}
	w.Header().Set("Content-Security-Policy", doc.Policy(d.Styles))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the reader has gone
	return nil
}

func runAddress(folder string) string { return "/runs/" + url.PathEscape(folder) }

// overview shows what each experiment has come to.
func (s *Server) overview(w http.ResponseWriter, r *http.Request) error {
	p := &doc.Document{Word: doc.Word{Text: "RUNS"}, Title: s.o.Dir, Site: &doc.Site{Links: links("/")}, Lead: []string{"Each run keeps its own verdict. There is no score over them."}}
	table := &doc.Table{Cards: true, Label: "Experiments and their latest runs", Columns: doc.Columns("experiment", "latest verdict", "started", "labels", "why", "runs")}
	all := 0
	for _, e := range s.experiments() {
		n := 0
		for _, c := range e.verdicts {
			n += c
		}
		all += n
		if e.name == "" {
			continue
		}
		row := []doc.Cell{{Text: e.name, Link: "/experiments/" + url.PathEscape(e.name)}, {Text: "none"}, {}, {}, {}, {Text: fmt.Sprint(n), Figure: true}}
		if latest := e.latest; latest != nil {
			verdict, why := reports.VerdictCell(latest.Verdict), latest.Why
			if latest.Contested != "" {
				verdict, why = reports.VerdictCell("inconclusive"), contestedBy(latest)
			}
			row[1], row[2], row[3], row[4] = verdict, reports.TimeCell(latest.Started), doc.Cell{Text: latest.Labels.String()}, doc.Cell{Text: why}
		}
		table.Row(row...)
	}
	p.Tally = figures.Plural(all, "run")
	if len(table.Rows) > 0 {
		p.Sections = append(p.Sections, doc.Section{ID: "experiments", Title: "Experiments", Blocks: []doc.Block{{Table: table}}})
	}
	p.Sections = append(p.Sections, runSection("The latest runs", s.index.Runs(runs.Query{Limit: runsOfPage, Before: r.URL.Query().Get(byBefore)})))
	return s.page(w, r, http.StatusOK, p)
}

// ofExperiment are the runs of one experiment, counted; those that cannot be read have the verdict "".
type ofExperiment struct {
	name     string
	verdicts map[string]int
	latest   *runs.Run // that speaks for it; nil = there is none
	passed   *runs.Run // the latest that passed, likewise
}

// experiments are those of all runs, by their names.
func (s *Server) experiments() []*ofExperiment {
	all := map[string]*ofExperiment{}
	for _, r := range s.index.Runs(runs.Query{}) {
		e := all[r.Experiment]
		if e == nil {
			e = &ofExperiment{name: r.Experiment, verdicts: map[string]int{}}
			all[r.Experiment] = e
		}
		e.verdicts[r.Verdict]++
		if r.Rehearsal || r.State == runs.Running {
			continue
		}
		if e.latest = cmp.Or(e.latest, r); r.State == runs.Judged && r.Exit == verdict.ExitPass && r.Contested == "" {
			e.passed = cmp.Or(e.passed, r)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *ofExperiment) int { return cmp.Compare(a.name, b.name) })
}

func runSection(title string, all []*runs.Run) doc.Section {
	section := doc.Section{ID: "runs", Title: title}
	if len(all) == 0 {
		section.Blocks = []doc.Block{{Text: "No runs yet. lockdrill run first-drill makes one in ./runs; lockdrill run --upload brings those of other machines here."}}
		return section
	}
	table := &doc.Table{Cards: true, Label: title, Columns: doc.Columns("started", "verdict", "experiment", "labels", "why", "by", "run")}
	for _, run := range all {
		verdict, why, at := reports.VerdictCell(run.Verdict), run.Why, runAddress(run.Folder)
		switch {
		case run.State == runs.Running:
			verdict, at = doc.Cell{Text: "RUNNING"}, "/live/"+url.PathEscape(run.Folder)
		case run.Contested != "":
			verdict, why = doc.Cell{Text: "CONTESTED", Tone: doc.Bad}, contestedBy(run)
		}
		table.Row(reports.TimeCell(run.Started), verdict, doc.Cell{Text: run.Experiment}, doc.Cell{Text: run.Labels.String()}, doc.Cell{Text: why}, doc.Cell{Text: run.Uploader}, doc.Cell{Text: run.Folder, Link: at})
	}
	if len(all) == runsOfPage {
		last := all[len(all)-1].Started
		table.Row(doc.Cell{}, doc.Cell{}, doc.Cell{}, doc.Cell{}, doc.Cell{}, doc.Cell{}, doc.Cell{Text: "earlier runs", Link: "/?before=" + url.QueryEscape(last)})
	}
	section.Blocks = []doc.Block{{Table: table}}
	return section
}

// experiment shows the runs of one experiment over time.
func (s *Server) experiment(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r, byLabel)
	if err != nil {
		return err
	}
	q.Experiment, q.Limit = r.PathValue("name"), runsOfPage
	a, err := s.archived(q)
	if err != nil {
		return err
	}
	if len(a.Experiments) == 0 {
		return refuse(http.StatusNotFound, "no run of %s has ended here", q.Experiment)
	}
	d := reports.Archive(a, runAddress)
	d.Title, d.Lead, d.Foot, d.Site = q.Experiment, nil, "The same as data: /api/v1/history?experiment="+url.QueryEscape(q.Experiment), &doc.Site{Links: links("")}
	return s.page(w, r, http.StatusOK, d)
}

// run shows the report of one run, made anew.
func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	run, err := s.asked(r)
	switch {
	case err != nil:
		return err
	case run.State == runs.Running:
		http.Redirect(w, r, "/live/"+url.PathEscape(run.Folder), http.StatusSeeOther)
		return nil
	case run.State == runs.Unread:
		return refuse(http.StatusUnprocessableEntity, "this run cannot be read: %s", run.Why)
	}
	var d *doc.Document
	err = s.judged(r.Context(), func() (err error) {
		d, err = s.o.Reader.Page(r.Context(), filepath.Join(s.o.Dir, run.Folder))
		return err
	})
	if err != nil {
		return err
	}
	d.Site = &doc.Site{Links: runLinks(run)}
	return s.page(w, r, http.StatusOK, d)
}

// runLinks are the links at the top of a run's page.
func runLinks(run *runs.Run) []doc.Link {
	all := append(links(""), doc.Link{Text: run.Experiment, Address: "/experiments/" + url.PathEscape(run.Experiment)})
	for _, f := range []string{"json", "md", "junit"} {
		all = append(all, doc.Link{Text: f, Address: runAddress(run.Folder) + "/" + f})
	}
	return all
}

// report gives a run in another form, made anew, for a program to read or a person to keep.
func (s *Server) report(w http.ResponseWriter, r *http.Request) error {
	run, err := s.asked(r)
	if err != nil {
		return err
	}
	if run.State != runs.Judged {
		return refuse(http.StatusConflict, "this run has no report")
	}
	var b bytes.Buffer
	format := r.PathValue("format")
	err = s.judged(r.Context(), func() error { return s.o.Reader.Report(r.Context(), &b, filepath.Join(s.o.Dir, run.Folder), format) })
	if errors.Is(err, ErrFormat) {
		return refuse(http.StatusNotFound, "there is no report in the form %s", format)
	}
	if err != nil {
		return err
	}
	kind := "text/plain; charset=utf-8"
	if format == "json" {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.Bytes()))
	return nil
}
