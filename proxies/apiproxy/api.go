package apiproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/proxies/tap"
)

// The API has the routes of the other lockdrill proxy, so that whoever ends a fault there ends one here.

// Bounds of a fault that comes over the API.
const (
	defaultFor = time.Minute
	maxFor     = time.Hour
	maxDelay   = 10 * time.Minute
)

// form is a fault as the API takes it.
type form struct {
	ID    string   `json:"id"`
	Do    string   `json:"do"`
	Delay string   `json:"delay,omitempty"`
	Of    string   `json:"of,omitempty"`
	For   string   `json:"for"`
	From  []string `json:"from,omitempty"`
}

// view is a fault as the API shows it.
type view struct {
	form
	State string     `json:"state"`
	Why   string     `json:"why,omitempty"`
	Hits  int64      `json:"hits"`
	Armed time.Time  `json:"armed"`
	Ended *time.Time `json:"ended,omitempty"`
}

// Stats are what the proxy has seen.
type Stats struct {
	Sources map[string]int64 `json:"sources"`  // connections so far, by client's address
	EndsTLS bool             `json:"ends_tls"` // it can refuse writes and lose answers
}

// API serves the faults, and GET /stats.
func (p *Proxy) API() http.Handler {
	stats := func(w http.ResponseWriter, _ *http.Request) {
		sources, ends := p.Sources()
		tap.AnswerJSON(w, http.StatusOK, Stats{sources, ends})
	}
	return tap.API[Status, view]{
		Post: p.post, All: p.Faults, ID: func(s Status) string { return s.ID }, View: viewOf, End: p.End, Reads: []tap.Read{{Path: "/stats", Answer: stats}},
	}.Handler()
}

func viewOf(s Status) view {
	v := view{form: form{ID: s.ID, Do: s.Do, Of: s.Of, For: s.For.String(), From: s.From}, State: "armed", Why: s.Why, Hits: s.Hits, Armed: s.Armed, Ended: s.Ended}
	if s.Delay > 0 {
		v.Delay = s.Delay.String()
	}
	if s.Ended != nil {
		v.State = "ended"
	}
	return v
}

func (p *Proxy) post(w http.ResponseWriter, r *http.Request) {
	var x form
	if !tap.Posted(w, r, &x) {
		return
	}
	f, all := x.fault()
	if len(all) > 0 {
		tap.Refuse(w, http.StatusBadRequest, all...)
		return
	}
	if f.ID == "" {
		f.ID = "fault-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	if err := p.Arm(f); err != nil {
		field, remedy := "id", "leave it out, or choose another"
		if errors.Is(err, ErrNoTLS) {
			field, remedy = "do", "or say slow or away"
		}
		tap.Refuse(w, http.StatusConflict, tap.Problem{Field: field, Problem: err.Error(), Remedy: remedy})
		return
	}
	tap.AnswerJSON(w, http.StatusCreated, viewOf(Status{Fault: f, Armed: time.Now().UTC()}))
}

// fault is the form as a fault, and all that is wrong with it.
func (x *form) fault() (f Fault, all []tap.Problem) {
	bad := func(field, problem, remedy string) {
		all = append(all, tap.Problem{Field: field, Problem: problem, Remedy: remedy})
	}
	f = Fault{ID: x.ID, Do: x.Do, Of: x.Of, For: defaultFor, From: x.From}
	for _, d := range []struct {
		field, text string
		most        time.Duration
		into        *time.Duration
	}{{"for", x.For, maxFor, &f.For}, {"delay", x.Delay, maxDelay, &f.Delay}} {
		if d.text == "" {
			continue
		}
		v, err := time.ParseDuration(d.text)
		if err != nil || v <= 0 || v > d.most {
			bad(d.field, fmt.Sprintf("%q is no duration above 0 and up to %s", d.text, d.most), "a number with its unit, as \"30s\" or \"200ms\"")
			continue
		}
		*d.into = v
	}
	switch {
	case !slices.Contains([]string{Slow, RefuseWrites, LoseReply, Away}, x.Do):
		bad("do", fmt.Sprintf("%q is no fault", x.Do), "one of slow, refuse_writes, lose_reply, away")
	case (x.Do == LoseReply) != slices.Contains([]string{"acquire", "renew", "release"}, x.Of):
		bad("of", fmt.Sprintf("%q does not go with %s", x.Of, x.Do), "acquire, renew or release, for lose_reply alone")
	case (x.Do == Slow) != (f.Delay > 0) && x.Delay == "":
		bad("delay", "is missing", "by how long what clients send is late, as \"2s\"")
	case x.Do != Slow && x.Delay != "":
		bad("delay", "is for slow", "leave it out")
	}
	for _, from := range x.From {
		if net.ParseIP(from) == nil {
			bad("from", fmt.Sprintf("%q is no IP address", from), "addresses of clients, as GET /stats lists them")
		}
	}
	return f, all
}

// Arm begins a fault at a proxy that stands by itself, by its API.
func Arm(ctx context.Context, api string, f Fault) error {
	x := form{ID: f.ID, Do: f.Do, Of: f.Of, For: f.For.String(), From: f.From}
	if f.Delay > 0 {
		x.Delay = f.Delay.String()
	}
	return tap.NewClient(api).Post(ctx, x)
}

// Seen is what a proxy that stands by itself has seen.
func Seen(ctx context.Context, api string) (s Stats, err error) {
	return s, tap.NewClient(api).Seen(ctx, &s)
}
