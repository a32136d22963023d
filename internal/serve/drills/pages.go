package drills

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/notice"
	"github.com/lockdrill/lockdrill/internal/serve"
	"github.com/lockdrill/lockdrill/reports"
)

// site shows a keeper's drills, and takes requests. The forms have a word that only a page of this server knows: beside the check of the
// request's origin, which the server does.
type site struct {
	k    *Keeper
	s    *serve.Server
	word string
}

// Part adds the drills of a schedule to a server: the folder is the server's own by then. address is where people reach it.
func Part(o Options, address string) serve.Part {
	return func(_ context.Context, s *serve.Server) error {
		o.Dir, o.Looked = s.Dir(), s.Looked
		o.Say = func(line string) { s.Say("%s", line) }
		o.Link = func(run string) string { return address + runLink(run) }
		k, err := Open(o)
		if err != nil {
			return err
		}
		if schedule, _ := k.Schedule(); len(schedule.Notices) > 0 {
			q, err := notice.Open(filepath.Join(o.Dir, noticeFolder), schedule.Notices, o.Say)
			if err != nil {
				return errors.Join(fmt.Errorf("%s: %w", o.Schedule, err), k.book.Close())
			}
			k.o.Tell = func(e notice.Event) { _ = q.Add(e) } // it says itself what it cannot
			s.Go("notices", q.Run)
			s.Registry().MustRegister(noticeMetrics(q)...)
		}
		s.Uploads(k.uploaded)
		p := &site{k: k, s: s, word: rand.Text()}
		s.Nav("Drills", "/drills")
		s.Handle("GET /drills", serve.Read, p.overview)
		s.Handle("GET /drills/{name}", serve.Read, p.drill)
		s.Handle("GET /requests/{id}", serve.Read, p.request)
		s.Handle("GET /calendar.ics", serve.Read, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
			_, _ = w.Write(k.Feed())
		})
		s.Handle("GET /api/v1/drills", serve.Read, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.state()) })
		s.Handle("GET /api/v1/drills/{name}/plan", serve.Read, p.planned)
		for pattern, do := range map[string]struct {
			role serve.Role
			do   func(r *http.Request, by string) (to string, err error)
		}{
			"/drills/{name}/run":     {serve.Launch, p.ask},
			"/requests/{id}/approve": {serve.Approve, p.approve},
			"/requests/{id}/drop":    {serve.Launch, p.drop},
			"/stop/{run}":            {serve.Launch, p.stop},
			"/freeze":                {serve.Launch, p.freeze},
		} {
			s.Handle("POST "+pattern, do.role, p.form(do.do))
			s.Handle("POST /api/v1"+pattern, do.role, p.api(do.do))
		}
		s.Registry().MustRegister(&metrics{k})
		s.Go("drills", k.Run)
		return nil
	}
}

// form does what a page's form asks for, and leads back to a page.
func (p *site) form(do func(*http.Request, string) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("word")), []byte(p.word)) != 1 {
			p.refuse(w, r, no("the page is an old one: the server was started anew since; load it again"))
			return
		}
		to, err := do(r, serve.By(r).Name)
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// api does the same for a program. Browsers send a bearer token to nobody by themselves; what they do send by themselves needs the word.
func (p *site) api(do func(*http.Request, string) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") && r.PostFormValue("word") != p.word {
			answer(w, http.StatusForbidden, map[string]any{"schemaVersion": 1, "error": "say who you are by Authorization: Bearer TOKEN"})
			return
		}
		to, err := do(r, serve.By(r).Name)
		if err != nil {
			answer(w, statusOf(err), map[string]any{"schemaVersion": 1, "error": err.Error()})
			return
		}
		answer(w, http.StatusOK, map[string]any{"schemaVersion": 1, "page": to})
	}
}

func statusOf(err error) int {
	if errors.Is(err, ErrNo) {
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

func answer(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(doc)
}

func (p *site) ask(r *http.Request, by string) (string, error) {
	id, err := p.k.Ask(r.Context(), r.PathValue("name"), by, r.PostFormValue("hash"), r.PostFormValue("when") == whenNext)
	return "/requests/" + id, err
}

func (p *site) approve(r *http.Request, by string) (string, error) {
	return "/drills", p.k.Approve(r.PathValue("id"), by, r.PostFormValue("hash"))
}

func (p *site) drop(r *http.Request, by string) (string, error) {
	return "/drills", p.k.Drop(r.PathValue("id"), by)
}

func (p *site) stop(r *http.Request, by string) (string, error) {
	return "/drills", p.k.Stop(r.PathValue("run"), by)
}

func (p *site) freeze(r *http.Request, by string) (string, error) {
	return "/drills", p.k.Freeze(by, r.PostFormValue("freeze") == "true")
}

const (
	whenNow  = "as soon as may be"
	whenNext = "at its next time"
)

func (p *site) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p.write(w, r, statusOf(err), &reports.Page{Word: "NO", Class: "fail", Title: "this was not done", Sentences: []string{err.Error() + "."},
		Sections: []reports.Section{{ID: "back", Blocks: []reports.Block{{Table: links("Drills", "/drills")}}}}})
}

func links(text, to string) *reports.Table {
	return &reports.Table{Label: text, Columns: []string{"go on"}, Rows: [][]reports.Cell{{{Text: text, Link: to}}}}
}

func (p *site) write(w http.ResponseWriter, r *http.Request, status int, page *reports.Page) {
	page.Site = p.s.Site(r.URL.Path)
	p.s.Page(w, r, status, page)
}

// button is a form that changes something.
func (p *site) button(to, text string, fields ...reports.Field) *reports.Form {
	return &reports.Form{Action: to, Button: text, Fields: append(fields, reports.Field{Name: "word", Value: p.word, Hidden: true})}
}

const (
	ahead     = 14 * 24 * time.Hour
	mostShown = 30
	mostTimes = 5 // of a drill
)

func (p *site) overview(w http.ResponseWriter, r *http.Request) {
	s, broken := p.k.Schedule()
	frozen, now := p.k.Frozen(), p.k.o.Now()
	page := &reports.Page{Word: "DRILLS", Title: figures.Plural(len(s.Drills), "drill") + " in the schedule", Refresh: 20}
	running, waiting := p.k.Running(), p.k.Waiting()
	page.Tally = fmt.Sprintf("%d running, %d waiting", len(running), len(waiting))
	freeze := p.button("/freeze", "Freeze: start nothing", reports.Field{Name: "freeze", Value: "true", Hidden: true})
	if frozen != "" {
		page.Word, page.Class = "FROZEN", "open"
		page.Sentences = append(page.Sentences, strings.ToUpper(frozen[:1])+frozen[1:]+". Nothing starts.")
		freeze = p.button("/freeze", "Thaw: let drills start", reports.Field{Name: "freeze", Value: "false", Hidden: true})
	}
	if broken != "" {
		page.Sentences = append(page.Sentences, "The schedule's file was changed and cannot be read, so the one that was read before goes on: "+broken)
	}
	add := func(id, title, none string, t *reports.Table, more ...reports.Block) {
		blocks := more
		if len(t.Rows) > 0 {
			t.ID, t.Label = id+"-table", title
			blocks = append([]reports.Block{{Table: t}}, more...)
		} else if none != "" {
			blocks = append([]reports.Block{{Muted: none}}, more...)
		} else {
			return
		}
		page.Sections = append(page.Sections, reports.Section{ID: id, Title: title, Blocks: blocks})
	}
	going := &reports.Table{Columns: []string{"drill", "since", "by", "run"}}
	var stops []reports.Block
	for _, run := range running {
		going.Rows = append(going.Rows, []reports.Cell{drillCell(run.Drill), timeCell(run.At), {Text: run.By}, {Text: run.Run, Link: runLink(run.Run), Code: true}})
		stops = append(stops, reports.Block{Form: p.button("/stop/"+url.PathEscape(run.Run), "Stop "+run.Drill+", and undo its faults")})
	}
	add("running", "What runs now?", "Nothing.", going, stops...)
	held := &reports.Table{Columns: []string{"drill", "due", "waits for", "at most"}}
	for _, x := range waiting {
		held.Rows = append(held.Rows, []reports.Cell{drillCell(x.Slot.Drill), timeCell(x.Slot.At), {Text: x.Why}, {Text: x.For(now)}})
	}
	add("waiting", "What is due and waits?", "", held)
	asked := &reports.Table{Columns: []string{"drill", "asked by", "for", "state", "void after"}}
	for _, q := range p.k.book.Requests() {
		when, state := whenNow, "waits for somebody else's approval"
		if !q.Slot.IsZero() {
			when = q.Slot.UTC().Format(timeLayout)
		}
		if q.ApprovedBy != "" {
			state = "approved by " + q.ApprovedBy
		} else if d := s.Drill(q.Drill); d != nil && d.Approval == "" {
			state = "starts as soon as it may"
		}
		asked.Rows = append(asked.Rows, []reports.Cell{{Text: q.Drill, Link: "/requests/" + q.Request}, {Text: q.By}, {Text: when}, {Text: state}, timeCell(q.Until)})
	}
	add("requests", "What was asked for?", "", asked)
	soon := &reports.Table{Columns: []string{"when", "drill", "experiment", "remark"}}
	for _, slot := range p.k.Planned(now.Add(ahead), mostTimes) {
		if len(soon.Rows) == mostShown {
			soon.More = "and more within two weeks"
			break
		}
		when, remark := slot.At.UTC().Format(timeLayout), ""
		d := s.Drill(slot.Drill)
		if slot.Random() {
			when = slot.From.UTC().Format(timeLayout) + " to " + slot.To.UTC().Format("15:04")
			remark = "at a random time"
		} else if why := s.Shut(slot.At); why != "" {
			remark = "does not run: " + why
		}
		if d.Approval != "" {
			remark = strings.TrimPrefix(remark+"; needs approval", "; ")
		}
		soon.Rows = append(soon.Rows, []reports.Cell{{Text: when, Num: true}, drillCell(slot.Drill), {Text: d.Experiment, Code: true}, {Text: remark}})
	}
	add("planned", "What is planned? (UTC)", "Nothing within two weeks.", soon, reports.Block{Form: freeze})
	all := &reports.Table{Columns: []string{"drill", "experiment", "when", "approval"}}
	for i := range s.Drills {
		d := &s.Drills[i]
		all.Rows = append(all.Rows, []reports.Cell{drillCell(d.Name), {Text: d.Experiment, Code: true}, {Text: cmp.Or(timingOf(d), "on demand")}, {Text: cmp.Or(d.Approval, "not needed")}})
	}
	add("schedule", "What is in the schedule?", "", all)
	ended := &reports.Table{Columns: []string{"ended", "drill", "verdict", "run", "remark"}}
	for _, run := range p.k.book.Runs() {
		if run.End != nil && run.End.Verdict != "" && len(ended.Rows) < mostShown {
			ended.Rows = append(ended.Rows, []reports.Cell{timeCell(run.End.At), drillCell(run.Drill), reports.VerdictCell(run.End.Verdict), {Text: run.Run, Link: runLink(run.Run), Code: true}, {Text: run.End.Why}})
		}
	}
	add("ended", "What has run?", "Nothing yet.", ended)
	unrun := &reports.Table{Columns: []string{"noted", "drill", "due", "what", "why"}}
	for _, e := range p.k.book.NotRun() {
		if len(unrun.Rows) == mostShown {
			unrun.More = "and more before"
			break
		}
		unrun.Rows = append(unrun.Rows, []reports.Cell{timeCell(e.At), drillCell(e.Drill), timeCell(e.Slot), {Text: e.What, Class: "open"}, {Text: e.Why}})
	}
	add("unrun", "What did not run, and why?", "Nothing.", unrun)
	p.write(w, r, http.StatusOK, page)
}

const timeLayout = "2006-01-02 15:04"

func timeCell(t time.Time) reports.Cell {
	if t.IsZero() {
		return reports.Cell{}
	}
	return reports.Cell{Text: t.UTC().Format(timeLayout), Num: true}
}

func drillCell(name string) reports.Cell { return reports.Cell{Text: name, Link: "/drills/" + name} }

func runLink(run string) string { return "/runs/" + url.PathEscape(run) }

// drill shows what a run would do, and takes a request for it.
func (p *site) drill(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	s, _ := p.k.Schedule()
	d := s.Drill(name)
	if d == nil {
		p.write(w, r, http.StatusNotFound, &reports.Page{Word: "NOT FOUND", Class: "fail", Title: "no drill of the schedule is called " + name})
		return
	}
	plan, err := p.k.Plan(r.Context(), name)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	page := &reports.Page{Word: "PLAN", Title: "drill " + name, Sentences: []string{"This is what a run does if it starts now."}}
	if d.Approval != "" {
		page.Sentences = append(page.Sentences, "Somebody else must approve this very plan.")
	}
	hash := reports.Field{Name: "hash", Value: plan.Hash, Hidden: true}
	var blocks []reports.Block
	switch {
	case plan.Hash == "":
		page.Class, page.Word = "fail", "NO PLAN"
		page.Sentences = []string{"No plan could be made, so no run can be asked for."}
	case d.Approval == "":
		blocks = append(blocks, reports.Block{Form: p.button("/drills/"+name+"/run", "Run it "+whenNow, hash)})
	default:
		blocks = append(blocks, reports.Block{Form: p.button("/drills/"+name+"/run", "Ask for a run "+whenNow, hash, reports.Field{Name: "when", Value: whenNow, Hidden: true})})
		if timingOf(d) != "" {
			blocks = append(blocks, reports.Block{Form: p.button("/drills/"+name+"/run", "Ask for a run "+whenNext, hash, reports.Field{Name: "when", Value: whenNext, Hidden: true})})
		}
	}
	page.Sections = planSections(plan, blocks)
	p.write(w, r, http.StatusOK, page)
}

func planSections(plan Plan, blocks []reports.Block) []reports.Section {
	return []reports.Section{
		{ID: "plan", Title: "What would a run do?", Blocks: []reports.Block{{Code: plan.Text}}},
		{ID: "ask", Title: "What can you do?", Blocks: blocks},
	}
}

// request shows a request beside the plan as it is now, and takes an approval of it.
func (p *site) request(w http.ResponseWriter, r *http.Request) {
	q, err := p.k.Request(r.PathValue("id"))
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	plan, err := p.k.Plan(r.Context(), q.Drill)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	page := &reports.Page{Word: "REQUEST", Title: "drill " + q.Drill, Tally: "asked by " + q.By}
	when := whenNow
	if !q.Slot.IsZero() {
		when = "for " + q.Slot.UTC().Format(timeLayout) + " UTC"
	}
	page.Sentences = []string{fmt.Sprintf("%s asks for a run, %s. The request is void after %s UTC.", q.By, when, q.Until.UTC().Format(timeLayout))}
	blocks := []reports.Block{{Form: p.button("/requests/"+q.Request+"/drop", "Withdraw the request")}}
	switch {
	case q.ApprovedBy != "":
		page.Sentences = append(page.Sentences, q.ApprovedBy+" has approved it.")
	case q.Hash == "":
		page.Sentences = append(page.Sentences, "It needs no approval.")
	case plan.Hash != q.Hash:
		page.Class = "fail"
		page.Sentences = append(page.Sentences, "What would be run is another plan by now: the file, what it executes, the target or lockdrill was changed. It cannot be approved: withdraw it, and ask again.")
	default:
		blocks = append([]reports.Block{{Form: p.button("/requests/"+q.Request+"/approve", "Approve this plan", reports.Field{Name: "hash", Value: plan.Hash, Hidden: true})}}, blocks...)
	}
	page.Sections = planSections(plan, blocks)
	p.write(w, r, http.StatusOK, page)
}

func (p *site) planned(w http.ResponseWriter, r *http.Request) {
	plan, err := p.k.Plan(r.Context(), r.PathValue("name"))
	if err != nil {
		answer(w, statusOf(err), map[string]any{"schemaVersion": 1, "error": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]any{"schemaVersion": 1, "plan": plan.Text, "hash": plan.Hash})
}

// stateDoc is the document of /api/v1/drills.
type stateDoc struct {
	SchemaVersion int          `json:"schemaVersion"`
	Frozen        string       `json:"frozen,omitempty"`
	Running       []Entry      `json:"running"`
	Waiting       []waitingDoc `json:"waiting"`
	Requests      []requestDoc `json:"requests"`
	Planned       []plannedDoc `json:"planned"`
	Ended         []Entry      `json:"ended"`
	NotRun        []Entry      `json:"notRun"`
}

type waitingDoc struct {
	Drill string    `json:"drill"`
	Due   time.Time `json:"due"`
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}

type requestDoc struct {
	Entry
	ApprovedBy string `json:"approvedBy,omitempty"`
}

type plannedDoc struct {
	Drill string    `json:"drill"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"` // of a random time: the end of its stretch
}

func (p *site) state() stateDoc {
	doc := stateDoc{SchemaVersion: 1, Frozen: p.k.Frozen(), Running: []Entry{}, Waiting: []waitingDoc{}, Requests: []requestDoc{}, Planned: []plannedDoc{}, Ended: []Entry{}, NotRun: p.k.book.NotRun()}
	for _, run := range p.k.Running() {
		doc.Running = append(doc.Running, run.Entry)
	}
	for _, x := range p.k.Waiting() {
		doc.Waiting = append(doc.Waiting, waitingDoc{x.Slot.Drill, x.Slot.At, x.Until, x.Why})
	}
	for _, q := range p.k.book.Requests() {
		doc.Requests = append(doc.Requests, requestDoc{q.Entry, q.ApprovedBy})
	}
	for _, slot := range p.k.Planned(p.k.o.Now().Add(ahead), mostTimes) {
		to := slot.At
		if slot.Random() {
			to = slot.To
		}
		doc.Planned = append(doc.Planned, plannedDoc{slot.Drill, slot.Shown(), to})
	}
	for _, run := range p.k.book.Runs() {
		if run.End != nil && run.End.Verdict != "" {
			doc.Ended = append(doc.Ended, *run.End)
		}
	}
	return doc
}
