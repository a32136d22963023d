package serve

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/serve/store"
	"github.com/lockdrill/lockdrill/reports"
)

// pages are for people. Each can be read without script, and with none but this server.
func (s *Server) pages() {
	s.Handle("GET /{$}", Read, s.overview)
	s.Handle("GET /experiments/{name}", Read, s.experiment)
	s.Handle("GET /runs/{folder}", Read, s.run)
	s.Handle("GET /runs/{folder}/{format}", Read, s.report)
	s.Handle("GET /live", Read, s.running)
	s.Handle("GET /live/{folder}", Read, s.livePage)
	s.Handle("GET /live/{folder}/events", Read, s.liveEvents)
	s.Handle("GET /live.js", Read, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(liveScript) // the reader has gone
	})
	s.Handle("/", Read, func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusNotFound, "there is no such page")
	})
}

// Site are the links at the top of a page at an address.
func (s *Server) Site(here string) []reports.Link {
	links := slices.Clone(s.nav)
	for i := range links {
		links[i].Here = links[i].Address == here
	}
	return links
}

// Page writes a page.
func (s *Server) Page(w http.ResponseWriter, r *http.Request, code int, p *reports.Page) {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		s.Say("%s: %v", r.URL.Path, err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	s.html(w, code, p.Script != "", b.Bytes())
}

func (s *Server) html(w http.ResponseWriter, code int, script bool, page []byte) {
	w.Header().Set("Content-Security-Policy", reports.SitePolicy(script))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(page) // the reader has gone
}

// refuse answers what is not done, to a program as JSON and to a person as a page.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics" {
		s.json(w, code, struct {
			SchemaVersion int    `json:"schemaVersion"`
			Error         string `json:"error"`
		}{1, why})
		return
	}
	s.Page(w, r, code, &reports.Page{Word: fmt.Sprint(code), Class: "fail", Title: http.StatusText(code), Sentences: []string{strings.ToUpper(why[:1]) + why[1:] + "."}, Site: s.Site("")})
}

func runAddress(folder string) string { return "/runs/" + url.PathEscape(folder) }

// overview shows what each experiment has come to.
func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	p := &reports.Page{Word: "RUNS", Title: s.o.Dir, Site: s.Site("/"), Sentences: []string{"Each run keeps its own verdict. There is no score over them."}}
	for _, sections := range s.home {
		more, err := sections(r.Context())
		if err != nil {
			s.broken(w, r, err)
			return
		}
		p.Sections = append(p.Sections, more...)
	}
	counts, err := s.store.Experiments(r.Context())
	if err != nil {
		s.broken(w, r, err)
		return
	}
	table := &reports.Table{Label: "Experiments and their latest runs", Columns: []string{"experiment", "latest verdict", "started", "labels", "why", "runs"}}
	all := 0
	for _, name := range sortedKeys(counts) {
		n := 0
		for _, c := range counts[name] {
			n += c
		}
		all += n
		if name == "" {
			continue
		}
		latest, err := s.latest(r.Context(), store.Query{Experiment: name})
		if err != nil {
			s.broken(w, r, err)
			return
		}
		row := []reports.Cell{{Text: name, Link: "/experiments/" + url.PathEscape(name)}, {Text: "none"}, {}, {}, {}, {Text: fmt.Sprint(n), Num: true}}
		if latest != nil {
			verdict, why := reports.VerdictCell(latest.Verdict), latest.Why
			if latest.Contested != "" {
				verdict, why = reports.VerdictCell("inconclusive"), contestedBy(latest)
			}
			row[1], row[2], row[3], row[4] = verdict, reports.TimeCell(latest.Started), reports.Cell{Text: latest.Labels.String()}, reports.Cell{Text: why}
		}
		table.Rows = append(table.Rows, row)
	}
	p.Tally = figures.Plural(all, "run")
	if len(table.Rows) > 0 {
		p.Sections = append(p.Sections, reports.Section{ID: "experiments", Title: "Experiments", Blocks: []reports.Block{{Table: table}}})
	}
	runs, err := s.store.Runs(r.Context(), store.Query{Limit: runsOfPage, Before: r.URL.Query().Get("before")})
	if err != nil {
		s.broken(w, r, err)
		return
	}
	p.Sections = append(p.Sections, runSection("The latest runs", runs))
	s.Page(w, r, http.StatusOK, p)
}

func runSection(title string, runs []store.Run) reports.Section {
	section := reports.Section{ID: "runs", Title: title}
	if len(runs) == 0 {
		section.Blocks = []reports.Block{{Text: "No runs yet. lockdrill run first-drill makes one in ./runs; lockdrill run --upload brings those of other machines here."}}
		return section
	}
	table := &reports.Table{Label: title, Columns: []string{"started", "verdict", "experiment", "labels", "why", "by", "run"}}
	for i := range runs {
		run := &runs[i]
		verdict, why, at := reports.VerdictCell(run.Verdict), run.Why, runAddress(run.Folder)
		switch {
		case run.State == store.Running:
			verdict, at = reports.Cell{Text: "RUNNING"}, "/live/"+url.PathEscape(run.Folder)
		case run.Contested != "":
			verdict, why = reports.Cell{Text: "CONTESTED", Class: "fail"}, contestedBy(run)
		}
		table.Rows = append(table.Rows, []reports.Cell{reports.TimeCell(run.Started), verdict, {Text: run.Experiment}, {Text: run.Labels.String()}, {Text: why}, {Text: run.Uploader}, {Text: run.Folder, Link: at}})
	}
	block := reports.Block{Table: table}
	if len(runs) == runsOfPage {
		last := runs[len(runs)-1].Started
		table.Rows = append(table.Rows, []reports.Cell{{}, {}, {}, {}, {}, {}, {Text: "earlier runs", Link: "/?before=" + url.QueryEscape(last)}})
	}
	section.Blocks = []reports.Block{block}
	return section
}

// experiment shows the runs of one experiment over time.
func (s *Server) experiment(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	q.Experiment, q.Limit = r.PathValue("name"), runsOfPage
	a, err := s.archived(r.Context(), q)
	if err != nil {
		s.broken(w, r, err)
		return
	}
	if len(a.Experiments) == 0 {
		s.refuse(w, r, http.StatusNotFound, "no run of "+q.Experiment+" has ended here")
		return
	}
	p := &reports.Page{Word: "HISTORY", Title: q.Experiment, Tally: figures.Plural(len(a.Experiments[0].Runs), "run"), Site: s.Site(""), Note: "The same as data: /api/v1/history?experiment=" + url.QueryEscape(q.Experiment)}
	var b bytes.Buffer
	if err := reports.SiteArchive(&b, a, runAddress, p); err != nil {
		s.broken(w, r, err)
		return
	}
	s.html(w, http.StatusOK, false, b.Bytes())
}

// run shows the report of one run, made anew.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	run, err := s.store.Run(r.Context(), r.PathValue("folder"))
	switch {
	case err != nil:
		s.broken(w, r, err)
		return
	case run.State == store.Running:
		http.Redirect(w, r, "/live/"+url.PathEscape(run.Folder), http.StatusSeeOther)
		return
	case run.State == store.Unread:
		s.refuse(w, r, http.StatusUnprocessableEntity, "this run cannot be read: "+run.Why)
		return
	}
	var b bytes.Buffer
	if err := s.judged(r, func() error { return s.o.Reader.Page(r.Context(), &b, s.folder(run.Folder), s.runSite(&run)) }); err != nil {
		s.broken(w, r, err)
		return
	}
	s.html(w, http.StatusOK, false, b.Bytes())
}

// runSite are the links at the top of a run's page.
func (s *Server) runSite(run *store.Run) []reports.Link {
	links := append(s.Site(""), reports.Link{Text: run.Experiment, Address: "/experiments/" + url.PathEscape(run.Experiment)})
	for _, f := range []string{"json", "md", "junit"} {
		links = append(links, reports.Link{Text: f, Address: runAddress(run.Folder) + "/" + f})
	}
	return links
}

// judged reads a run when it is its turn: a history may be large.
func (s *Server) judged(r *http.Request, read func() error) error {
	select {
	case s.judging <- struct{}{}:
		defer func() { <-s.judging }()
		return read()
	case <-r.Context().Done():
		return r.Context().Err()
	case <-s.stopping:
		return errors.New("the server is stopping")
	}
}

// report gives a run in another form, made anew, for a program to read or a person to keep.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	run, err := s.store.Run(r.Context(), r.PathValue("folder"))
	if err != nil {
		s.broken(w, r, err)
		return
	}
	if run.State != store.Judged {
		s.refuse(w, r, http.StatusConflict, "this run has no report")
		return
	}
	var b bytes.Buffer
	format := r.PathValue("format")
	err = s.judged(r, func() error { return s.o.Reader.Report(r.Context(), &b, s.folder(run.Folder), format) })
	switch {
	case errors.Is(err, ErrFormat):
		s.refuse(w, r, http.StatusNotFound, "there is no report in the form "+format)
		return
	case err != nil:
		s.broken(w, r, err)
		return
	}
	kind := "text/plain; charset=utf-8"
	if format == "json" {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.Bytes()))
}

func sortedKeys(counts map[string]map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }
