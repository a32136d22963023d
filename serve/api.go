package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/runs"
)

const (
	runsOfPage = 200  // listed on one page
	runsOfAPI  = 1000 // at most, in one answer
)

// Parameters of requests.
const (
	byExperiment, byLabel = "experiment", "label"
	byLimit, byBefore     = "limit", "before"
	byAge                 = "max_age"
)

// runDoc is a run as the API has it.
type runDoc struct {
	Folder     string         `json:"folder"`
	State      runs.State     `json:"state"`
	ID         string         `json:"id,omitempty"`
	Experiment string         `json:"experiment,omitempty"`
	Started    string         `json:"started,omitempty"`
	Verdict    string         `json:"verdict,omitempty"`
	Exit       int            `json:"exit"`
	Rehearsal  bool           `json:"rehearsal,omitempty"`
	Labels     history.Labels `json:"labels,omitempty"`
	Why        string         `json:"why,omitempty"`
	Uploader   string         `json:"uploader,omitempty"`
	Contested  string         `json:"contested,omitempty"` // the run that has its id and other bytes: neither passes
}

func docOf(r *runs.Run) runDoc {
	return runDoc{r.Folder, r.State, r.ID, r.Experiment, r.Started, r.Verdict, r.Exit, r.Rehearsal, r.Labels, r.Why, r.Uploader, r.Contested}
}

// api are the answers for programs. They change nothing, but for uploads (ingest.go).
func (s *Server) api() {
	s.handle("GET /api/v1/runs", Read, s.listRuns)
	s.handle("GET /api/v1/runs/{folder}", Read, s.oneRun)
	s.handle("GET /api/v1/history", Read, s.archive)
	s.handle("GET /api/v1/gate", Read, s.gate)
	metrics := s.metrics.handler()
	s.handle("GET /metrics", Read, func(w http.ResponseWriter, r *http.Request) error { metrics.ServeHTTP(w, r); return nil })
	well := func(w http.ResponseWriter, _ *http.Request) error { _, err := fmt.Fprintln(w, "ok"); return err }
	s.handle("GET /healthz", Anybody, well)
	s.handle("GET /readyz", Anybody, func(w http.ResponseWriter, r *http.Request) error {
		if err := s.ready(); err != nil {
			return err
		}
		return well(w, r)
	})
}

// ready refuses what must not be answered before the folder was looked over once.
func (s *Server) ready() error {
	select {
	case <-s.looked:
		return nil
	default:
		return refuse(http.StatusServiceUnavailable, "the folder is being looked over: ask again in a moment")
	}
}

// queryOf reads which runs a request is about, by parameters of these names. One that is misspelled or comes twice is refused: without it other
// runs would answer.
func queryOf(r *http.Request, names ...string) (q runs.Query, err error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, refuse(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch {
		case !slices.Contains(names, name):
			return q, refuse(http.StatusBadRequest, "unknown parameter %q: there are %s", name, strings.Join(names, ", "))
		case name != byLabel && len(v[name]) > 1:
			return q, refuse(http.StatusBadRequest, "%s is given twice", name)
		}
	}
	q = runs.Query{Experiment: v.Get(byExperiment), Before: v.Get(byBefore), Labels: history.Labels{}}
	for _, label := range v[byLabel] {
		if err := q.Labels.Add(label); err != nil {
			return q, refuse(http.StatusBadRequest, "label %q: %v", label, err)
		}
	}
	if text := v.Get(byLimit); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > runsOfAPI {
			return q, refuse(http.StatusBadRequest, "limit %q: want 1 to %d", text, runsOfAPI)
		}
		q.Limit = n
	}
	return q, nil
}

func (s *Server) listRuns(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r, byExperiment, byLabel, byLimit, byBefore)
	if err != nil {
		return err
	}
	if q.Limit == 0 {
		q.Limit = runsOfPage
	}
	doc := struct {
		SchemaVersion int      `json:"schemaVersion"`
		Runs          []runDoc `json:"runs"` // the latest first; earlier ones: before=STARTED of the last
	}{1, []runDoc{}}
	for _, run := range s.index.Runs(q) {
		doc.Runs = append(doc.Runs, docOf(run))
	}
	return s.json(w, http.StatusOK, doc)
}

func (s *Server) oneRun(w http.ResponseWriter, r *http.Request) error {
	run, err := s.asked(r)
	if err != nil {
		return err
	}
	return s.json(w, http.StatusOK, struct {
		SchemaVersion int `json:"schemaVersion"`
		runDoc
	}{1, docOf(run)})
}

// archive is the document of `lockdrill history`.
func (s *Server) archive(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r, byExperiment, byLabel, byLimit, byBefore)
	if err != nil {
		return err
	}
	a, err := s.archived(q)
	if err != nil {
		return err
	}
	return s.json(w, http.StatusOK, a)
}

// archived compares the runs that are meant.
func (s *Server) archived(q runs.Query) (*compare.Archive, error) {
	q.States = []runs.State{runs.Judged}
	var all []*compare.Observed
	for _, r := range s.index.Runs(q) {
		seen, err := s.index.Observed(r)
		if err != nil {
			return nil, err
		}
		if r.Contested != "" {
			seen = seen.Withdrawn(contestedBy(r))
		}
		all = append(all, seen)
	}
	return compare.ArchiveOf(all, s.o.Reader.Compare), nil
}

func contestedBy(r *runs.Run) string {
	return "run " + r.Contested + " has the same id and other bytes: neither passes"
}

// latest is the latest run that ended, and that is no rehearsal; nil = there is none. One that cannot be read counts: an earlier one does not
// answer for it.
func (s *Server) latest(q runs.Query) *runs.Run {
	q.States, q.Live, q.Limit = []runs.State{runs.Judged, runs.Unread}, true, 1
	for _, r := range s.index.Runs(q) {
		return r
	}
	return nil
}

// nameless is the latest run that does not even say of which experiment it is; nil = there is none since then.
func (s *Server) nameless(since *runs.Run) *runs.Run {
	for _, r := range s.index.Runs(runs.Query{States: []runs.State{runs.Unread}}) {
		if r.Experiment == "" && r.Started >= since.Started {
			return r
		}
	}
	return nil
}

// gateDoc answers whether a release may go on.
type gateDoc struct {
	SchemaVersion int     `json:"schemaVersion"`
	Verdict       string  `json:"verdict"` // that of the latest run; inconclusive where it is too old, or contested
	Exit          int     `json:"exit"`
	Why           string  `json:"why,omitempty"`
	Run           *runDoc `json:"run"`
}

// gate passes (200) where the latest run that is meant has passed, and is young enough. Everything else is 412, also that there is none.
func (s *Server) gate(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r, byExperiment, byLabel, byAge)
	if err != nil {
		return err
	}
	if q.Experiment == "" {
		return refuse(http.StatusBadRequest, "experiment is missing: /api/v1/gate?experiment=NAME&label=release=1.4&max_age=24h")
	}
	var youngest time.Duration
	if text := r.URL.Query().Get(byAge); text != "" {
		if youngest, err = time.ParseDuration(text); err != nil || youngest <= 0 {
			return refuse(http.StatusBadRequest, "max_age %q: want a duration such as 24h", text)
		}
	}
	if err := s.ready(); err != nil {
		return err
	}
	run := s.latest(q)
	open := func(why string) gateDoc {
		return gateDoc{SchemaVersion: 1, Verdict: verdict.ExitName(verdict.ExitInconclusive), Exit: verdict.ExitInconclusive, Why: why}
	}
	if run != nil {
		run = cmp.Or(s.nameless(run), run)
	}
	var doc gateDoc
	switch {
	case run == nil:
		doc = open("no run of " + strings.TrimSpace(q.Experiment+" "+q.Labels.String()) + " has ended here")
	case run.Contested != "":
		doc = open(contestedBy(run))
	case run.State == runs.Unread:
		doc = open("the latest run, in the folder " + run.Folder + ", cannot be read: " + run.Why)
	default:
		doc = gateDoc{SchemaVersion: 1, Verdict: run.Verdict, Exit: run.Exit, Why: run.Why}
		at, err := time.Parse(time.RFC3339Nano, run.Started)
		if age := time.Since(at); youngest > 0 && doc.Exit == verdict.ExitPass && (err != nil || age > youngest) {
			doc = open(fmt.Sprintf("the latest run is %s old, and max_age is %s", age.Round(time.Second), youngest))
		}
	}
	code := http.StatusPreconditionFailed
	if doc.Exit == verdict.ExitPass {
		code = http.StatusOK
	}
	if run != nil {
		d := docOf(run)
		doc.Run = &d
	}
	return s.json(w, code, doc)
}

// json writes a document.
func (s *Server) json(w http.ResponseWriter, code int, doc any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(doc) // the reader has gone
	return nil
}

// asked is the run that a request is about.
func (s *Server) asked(r *http.Request) (*runs.Run, error) {
	run := s.index.Run(r.PathValue("folder"))
	if run == nil {
		return nil, refuse(http.StatusNotFound, "there is no such run")
	}
	return run, nil
}
