package undo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
)

// Entry is a record with how far it has come.
type Entry struct {
	ID     int
	Record Record
	State  State
	At     time.Time // of the state
	Why    string    // of a dirty one
	By     string    // who wrote the state: runner, watchdog, recover
}

// Content is what a journal says.
type Content struct {
	Header  Header // the zero Header if the journal was cut off in it: then nothing was changed
	Entries []Entry
	Closed  bool
}

// Open lists the entries that are not undone in the order in which they are undone: those that halt something, then the others; in
// either part latest first.
func (c *Content) Open() []Entry {
	var halts, left []Entry
	for _, e := range slices.Backward(c.Entries) {
		switch {
		case e.State == Undone:
		case e.Record.Halts():
			halts = append(halts, e)
		default:
			left = append(left, e)
		}
	}
	return append(halts, left...)
}

// Read reads the journal of a run, which may be in progress. A line that was cut off was written by a process that died, or had no
// room: the change that it announces was not made, and the change whose end it tells is taken as not ended. Anything else that is no
// line of a journal is an error with its number: of such a file nothing is believed.
func Read(path string) (Content, error) {
	data, err := regular.Read(path)
	if err != nil {
		return Content{}, fmt.Errorf("read journal: %w", err)
	}
	return content(path, data)
}

// maxLine bounds a line of a journal: a record of a thousand proxies takes less than one MiB.
const maxLine = 16 << 20

func content(path string, data []byte) (Content, error) {
	var c Content
	lines := bytes.Split(data, []byte("\n"))
	for i, text := range lines {
		l, torn, err := parse(text, i == len(lines)-1)
		if len(text) > maxLine {
			err = fmt.Errorf("a line of over %d MiB, which no run writes", maxLine>>20)
		}
		if err == nil && !torn {
			err = c.add(l)
		}
		if err != nil {
			return Content{}, fmt.Errorf("read journal: %s:%d: %w", path, i+1, err)
		}
	}
	c.Closed = c.Closed && len(c.Open()) == 0 // nobody closes one with something in it
	return c, nil
}

// parse reads one line; torn = there is nothing in it to go by. What follows the last newline was not written to its end.
func parse(text []byte, last bool) (l line, torn bool, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return l, true, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&l)
	if err == nil && d.InputOffset() != int64(len(text)) {
		err = errors.New("more than one value")
	}
	if err == nil {
		return l, false, nil
	}
	cut := new(json.SyntaxError)
	torn = last || !json.Valid(text) && text[0] == '{' && errors.As(json.Unmarshal(text, new(any)), &cut) && cut.Offset >= int64(len(text))
	if torn {
		return l, true, nil
	}
	return l, false, err
}

// add takes one line in.
func (c *Content) add(l line) error {
	switch {
	case l.Header != nil && (c.Header.V != 0 || len(c.Entries) > 0):
		return errors.New("a second header")
	case l.Header != nil && (l.Header.V < 1 || l.Header.V > Version):
		return fmt.Errorf("the journal has version %d, and this lockdrill knows those up to %d: use the lockdrill that wrote it", l.Header.V, Version)
	case l.Header != nil:
		c.Header = *l.Header
		return nil
	case l.Closed:
		c.Closed = true
		return nil
	case c.Header.V == 0:
		return errors.New("no header comes before it")
	case !slices.Contains([]State{Intent, Injected, UndoIntent, Undone, Dirty}, l.State):
		return fmt.Errorf("unknown state %q", l.State)
	}
	i := slices.IndexFunc(c.Entries, func(e Entry) bool { return e.ID == l.ID })
	switch {
	case l.State == Intent && (i >= 0 || l.ID <= 0 || l.Record == nil || l.Record.Kind == ""):
		return fmt.Errorf("record %d is announced twice, or without what it is", l.ID)
	case l.State == Intent && c.Closed:
		return errors.New("a record after the end")
	case l.State == Intent:
		c.Entries = append(c.Entries, Entry{ID: l.ID, Record: *l.Record, State: l.State, At: l.At, By: l.By})
		return nil
	case i < 0:
		return fmt.Errorf("record %d was never announced", l.ID)
	}
	c.Entries[i].advance(l)
	return nil
}

// Has reports that the shot of an event was written down: as a whole, or for each of its victims by itself.
func (c *Content) Has(shot history.Event) bool {
	ops := []string{shot.Op}
	for _, v := range shot.Fault.Victims {
		ops = append(ops, shot.Op+" "+v)
	}
	had := 0
	for _, e := range c.Entries {
		switch i := slices.Index(ops, e.Record.Shot.Op); {
		case i == 0:
			return true
		case i > 0:
			had++
		}
	}
	return had > 0 && had == len(shot.Fault.Victims)
}

// holds reports that c is o, or o and more.
func (c *Content) holds(o *Content) bool {
	return c.Header.Nonce == o.Header.Nonce && c.Header.Run == o.Header.Run && len(c.Entries) >= len(o.Entries) &&
		!slices.ContainsFunc(o.Entries, func(e Entry) bool {
			return !slices.ContainsFunc(c.Entries, func(own Entry) bool { return own.ID == e.ID && own.Record.Kind == e.Record.Kind })
		})
}

func (c *Content) clone() Content {
	return Content{Header: c.Header, Entries: slices.Clone(c.Entries), Closed: c.Closed}
}

// hear takes in that a known entry is undone, or the journal's end, and nothing else.
func (c *Content) hear(l line) {
	i := slices.IndexFunc(c.Entries, func(e Entry) bool { return e.ID == l.ID })
	switch {
	case l.Closed:
		c.Closed = true
	case i >= 0 && l.State == Undone:
		c.Entries[i].advance(l)
	}
}

// advance takes the next state of an entry. Where two processes undo at once (a runner that hung, and its watchdog), the one that is
// through has the last word: only a new injection opens an undone record again.
func (e *Entry) advance(l line) {
	if e.State == Undone && l.State != Injected {
		return
	}
	e.State, e.At, e.Why, e.By = l.State, l.At, l.Why, l.By
	if l.Record != nil {
		e.Record = *l.Record
	}
}
