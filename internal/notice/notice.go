// Package notice tells others what drills came to: by a signed webhook, in Slack, and as annotations in Grafana.
//
// What is to be told is first a file in a folder, and is removed when it was told, so that neither a server that is away nor the end of
// this process loses it. Its one invariant: a notice that fails changes nothing else; it is tried again, and in the end given up, in the
// log. Secrets are read when they are needed and are written nowhere.
package notice

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// What an event is about.
const (
	Changed = "changed" // the verdict is another than that of the drill before
	Unrun   = "unrun"   // a drill was due and did not run
	Dirty   = "dirty"   // not everything is undone
	Ended   = "ended"   // a drill came to its end, and nothing changed: for annotations only
)

// Event is what is told.
type Event struct {
	ID         string            `json:"id"` // unique
	Kind       string            `json:"kind"`
	Drill      string            `json:"drill"`
	Experiment string            `json:"experiment"`
	Run        string            `json:"run,omitempty"` // folder of the run
	Verdict    string            `json:"verdict,omitempty"`
	Before     string            `json:"before,omitempty"` // verdict of the drill before
	Why        string            `json:"why,omitempty"`
	At         time.Time         `json:"at"`
	Link       string            `json:"link,omitempty"` // address of the run's page
	Labels     map[string]string `json:"labels,omitempty"`

	Ran    Span   `json:"-"` // of a run
	Faults []Span `json:"-"` // each from its confirmation to its end
}

// Span is a stretch of time with a name.
type Span struct {
	Name     string
	From, To time.Time
}

// Text is the event in one line.
func (e *Event) Text() string {
	text := "drill " + e.Drill + ": "
	switch e.Kind {
	case Unrun:
		text += "did not run: " + e.Why
	case Dirty:
		text += "NOT CLEAN: not everything is undone; lockdrill recover " + e.Run
	default:
		text += word(e.Verdict)
		if e.Before != "" && e.Before != e.Verdict {
			text += ", it was " + word(e.Before)
		}
		if e.Why != "" {
			text += ": " + e.Why
		}
	}
	if e.Link != "" {
		text += " " + e.Link
	}
	return text
}

func word(verdict string) string { return strings.ToUpper(strings.ReplaceAll(verdict, "-", " ")) }

// Spans reads from a history when its run began and ended, and when each of its faults was in effect.
func Spans(r io.Reader) (ran Span, faults []Span, err error) {
	h, err := history.NewReader(r)
	if err != nil {
		return ran, nil, err
	}
	origin, err := time.Parse(time.RFC3339Nano, h.Header().Started)
	if err != nil {
		return ran, nil, fmt.Errorf("history: when it started: %w", err)
	}
	at := func(ns int64) time.Time { return origin.Add(time.Duration(ns)) }
	ran = Span{Name: h.Header().Experiment, From: origin, To: origin}
	open := map[string]int{} // by shot
	for {
		e, err := h.Next()
		if errors.Is(err, io.EOF) {
			return ran, faults, nil
		}
		if err != nil {
			return ran, faults, err
		}
		ran.To = at(e.At)
		if e.Fault == nil {
			continue
		}
		shot := fmt.Sprintf("%s#%d", e.Fault.ID, e.Fault.Shot)
		switch e.Kind {
		case history.FaultConfirmed:
			open[shot] = len(faults)
			faults = append(faults, Span{Name: e.Fault.ID, From: at(e.From), To: at(e.To)})
		case history.FaultReverted, history.FaultVerified:
			if i, ok := open[shot]; ok {
				faults[i].To = at(e.To)
			}
		}
	}
}

// item is one thing to send to one address.
type item struct {
	To    string          `json:"to"` // name of the notice in the schedule
	About string          `json:"about"`
	Body  json.RawMessage `json:"body"`
	First time.Time       `json:"first"`
	Tries int             `json:"tries"`
	Next  time.Time       `json:"next"`
}

// items are what one of those who are told gets of an event.
func items(n *experiments.Notice, e *Event, now time.Time) ([]item, error) {
	if len(n.Drills) > 0 && !slices.Contains(n.Drills, e.Drill) || e.Kind == Ended && n.Grafana == nil {
		return nil, nil
	}
	var bodies []any
	switch {
	case n.Webhook != nil:
		bodies = append(bodies, cloudEvent{
			SpecVersion: "1.0", ID: e.ID, Source: "/lockdrill", Type: "lockdrill.drill." + e.Kind + ".v1", Subject: e.Drill,
			Time: e.At.UTC().Format(time.RFC3339), ContentType: "application/json", Data: e,
		})
	case n.Slack != nil:
		bodies = append(bodies, map[string]string{"text": slackEscape.Replace(e.Text())})
	case n.Grafana != nil:
		bodies = annotations(n.Grafana, e)
	}
	var all []item
	for _, body := range bodies {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		all = append(all, item{To: n.Name, About: e.Drill + " " + e.Kind, Body: data, First: now, Next: now})
	}
	return all, nil
}

// slackEscape takes the meaning from the characters that Slack gives one.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// cloudEvent is the envelope of CloudEvents 1.0, as structured JSON.
type cloudEvent struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Time        string `json:"time"`
	ContentType string `json:"datacontenttype"`
	Data        *Event `json:"data"`
}

// annotation is what Grafana's POST /api/annotations takes; times are milliseconds.
type annotation struct {
	Dashboard string   `json:"dashboardUID,omitempty"`
	Time      int64    `json:"time"`
	TimeEnd   int64    `json:"timeEnd"`
	Tags      []string `json:"tags"`
	Text      string   `json:"text"`
}

func annotations(g *experiments.GrafanaNotice, e *Event) []any {
	tags := append([]string{"lockdrill", e.Drill}, g.Tags...)
	region := func(s Span, text string, more ...string) annotation {
		return annotation{g.DashboardUID, s.From.UnixMilli(), s.To.UnixMilli(), append(slices.Clone(tags), more...), text}
	}
	ran := e.Ran
	if ran.From.IsZero() {
		ran.From, ran.To = e.At, e.At
	}
	all := []any{region(ran, e.Text())}
	for _, f := range e.Faults {
		all = append(all, region(f, "fault "+f.Name+" of drill "+e.Drill, "fault", f.Name))
	}
	return all
}
