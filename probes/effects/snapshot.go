package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// fetched is a source that gives all there is each time: an HTTP answer without a cursor, a command.
type fetched struct {
	fetch func(ctx context.Context) ([]Row, error)
	// overwrites: rows are written over, so that one that is gone is no sign.
	overwrites bool
	begun      bool
	had        Counted
	some       bool // the read before gave some
}

func (f *fetched) Close() error { return nil }

func (f *fetched) Read(ctx context.Context, _ bool) (Batch, error) {
	rows, err := f.fetch(ctx)
	if err != nil {
		return Batch{}, err
	}
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = r.Key()
	}
	if !f.begun {
		f.begun, f.had, f.some = true, Counted{}, len(rows) > 0
		f.had.News(keys)
		return Batch{}, nil
	}
	var b Batch
	fresh := f.had.News(keys)
	for _, i := range fresh {
		b.Entries = append(b.Entries, Entry{Row: rows[i], Unordered: true})
	}
	if f.some && len(fresh) == len(rows) && !f.overwrites { // nothing of what was read is left: more may have gone with it
		b.Lost = "nothing of what the source showed before is there any more, so what came in between may be gone as well: let it show more"
	}
	f.some = len(rows) > 0
	return b, nil
}

func (f *fetched) Last(ctx context.Context, n int) ([]Row, error) {
	rows, err := f.fetch(ctx)
	return LastOf(rows, n), err
}

// key tells rows apart.
func (r Row) Key() string {
	text, _ := json.Marshal(r) // sorts the columns, and cannot fail
	return string(text)
}

const (
	mostOfAnswer  = 64 << 20 // bytes of an answer, or of what a command prints
	commandWithin = 10 * time.Second
	mostPages     = 10_000 // of answers, up to the present end
)

// NewCommand returns a reader of what a command prints: it runs at each read, prints all lines that there are, and ends.
func NewCommand(words []string, pattern string) (Reader, error) {
	parse, err := parser(pattern)
	if err != nil {
		return nil, err
	}
	run := command.Command{Words: words, Within: commandWithin, Most: mostOfAnswer}
	return &fetched{fetch: func(ctx context.Context) ([]Row, error) {
		out, err := run.Run(ctx)
		switch {
		case err != nil:
			return nil, err
		case out.Exit != 0:
			return nil, fmt.Errorf("%s ended with status %d: %s", words[0], out.Exit, command.Result{Stderr: out.Stderr}.Said())
		case out.Cut:
			return nil, fmt.Errorf("%s printed over %d bytes", words[0], mostOfAnswer)
		}
		var rows []Row
		for line := range strings.Lines(out.Stdout) {
			got := parse(follow.Plain([]byte(strings.TrimSuffix(line, "\n")), false, history.Span{}))
			if got.Unread != "" {
				return nil, fmt.Errorf("%s printed what cannot be read: %s", words[0], detailOf(got.Unread))
			}
			if got.Row != nil {
				rows = append(rows, got.Row)
			}
		}
		return rows, nil
	}}, nil
}

// HTTP says what is asked for.
type HTTP struct {
	URL        string
	Param      string // takes the cursor; "" = each answer has all there is
	Cursor     string // field of an element: its last value is the cursor
	Token      string // bearer; "" = none
	Overwrites bool
}

// NewHTTP returns a reader of a JSON array.
func NewHTTP(h HTTP) Reader {
	a := &answers{HTTP: h, client: &http.Client{Timeout: 10 * time.Second}}
	if h.Param == "" {
		return &fetched{fetch: func(ctx context.Context) ([]Row, error) { return a.ask(ctx, "") }, overwrites: h.Overwrites}
	}
	return a
}

// answers are pages of an HTTP source behind a cursor. A page may be passed over while an older one is still to come, so the final read
// asks for all since the beginning again.
type answers struct {
	HTTP
	client *http.Client

	begun     bool
	start, at string // cursors
	had       Counted
}

func (a *answers) Close() error { a.client.CloseIdleConnections(); return nil }

func (a *answers) Read(ctx context.Context, final bool) (Batch, error) {
	if !a.begun {
		at := ""
		if _, err := a.pages(ctx, &at, mostPages, func([]Row) {}); err != nil {
			return Batch{}, err
		}
		a.begun, a.start, a.at, a.had = true, at, at, Counted{}
		return Batch{}, nil
	}
	var b Batch
	var keys []string
	var rows []Row
	at, most := a.at, pagesOfRead
	if final {
		at, most = a.start, mostPages
	}
	had := a.had
	more, err := a.pages(ctx, &at, most, func(page []Row) {
		for _, r := range page {
			rows, keys = append(rows, r), append(keys, r.Key())
		}
	})
	if err != nil {
		return Batch{}, err
	}
	if !final { // each page begins after what was read: what it has is new
		had = Counted{}
		for _, k := range keys {
			a.had[k]++
		}
	}
	for _, i := range had.News(keys) {
		b.Entries = append(b.Entries, Entry{Row: rows[i], Unordered: true, Late: final})
	}
	a.at, b.Partial = at, more
	return b, nil
}

func (a *answers) Last(ctx context.Context, n int) ([]Row, error) {
	var rows []Row
	at := ""
	_, err := a.pages(ctx, &at, mostPages, func(page []Row) { rows = LastOf(append(rows, page...), n) })
	return rows, err
}

// pages asks from a cursor on until there is no more, or most answers were given: then more is true.
func (a *answers) pages(ctx context.Context, at *string, most int, take func([]Row)) (more bool, err error) {
	for range most {
		rows, err := a.ask(ctx, *at)
		if err != nil || len(rows) == 0 {
			return false, err
		}
		last, ok := rows[len(rows)-1].Get(a.Cursor)
		if !ok {
			return false, Declared("an element has no field %s, which is to be the cursor: it has %s", a.Cursor, rows[len(rows)-1].columns())
		}
		if last == *at {
			return false, Declared("the answer after the cursor %s ends with it again: %s is to give what comes after", witness.Cut(last), a.Param)
		}
		take(rows)
		*at = last
	}
	return true, nil
}

// ask makes one request.
func (a *answers) ask(ctx context.Context, cursor string) ([]Row, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, Declared("the url is no address")
	}
	if cursor != "" {
		q := u.Query()
		q.Set(a.Param, cursor)
		u.RawQuery = q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	answer, err := a.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) { // its text has the whole address
			err = failed.Err
		}
		return nil, fmt.Errorf("ask %s: %w", u.Host, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", u.Host, answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostOfAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.Host, err)
	}
	if len(body) > mostOfAnswer {
		return nil, Declared("%s answers over %d bytes: give it a cursor", u.Host, mostOfAnswer)
	}
	return rowsOf(body, u.Host)
}

// rowsOf are the elements of a JSON array, or of the array "items" of an object.
func rowsOf(body []byte, host string) ([]Row, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(body, &elements); err != nil {
		var object struct{ Items *[]json.RawMessage }
		if err := json.Unmarshal(body, &object); err != nil || object.Items == nil {
			return nil, Declared("the answer of %s is neither a JSON array nor an object with an array items", host)
		}
		elements = *object.Items
	}
	rows := make([]Row, len(elements))
	for i, raw := range elements {
		row, err := parseJSON(raw)
		if err != nil {
			return nil, Declared("an element of the answer of %s is no object", host)
		}
		rows[i] = row
	}
	return rows, nil
}
