package follow

import (
	"bytes"
	"encoding/json"
	"regexp"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// Limit is how much is read of a line, or of the pieces of one.
const Limit = 4 << 20

// Line is a line of a log. Its bytes are only valid during the call that gives it.
type Line struct {
	Text  []byte // as its writer meant it: without its end, a byte order mark, colours, and whatever a container runtime wrote around it
	Whole []byte // as the log has it: with the runtime's envelope, once around all of its pieces, and with colours
	Cut   bool   // there may be more of it, which nobody read: it is longer than Limit, or its end has not come
	At    history.Span
}

// Find matches the line as its writer meant it or, where that fails, as the log has it, and says where in text the groups are; nil = nowhere.
func (l *Line) Find(p *regexp.Regexp) (text []byte, groups []int) {
	for _, text = range [][]byte{l.Text, l.Whole} {
		if groups = p.FindSubmatchIndex(text); groups != nil {
			break
		}
	}
	return text, groups
}

// Group is a named group of what Find found.
func Group(p *regexp.Regexp, name string, text []byte, groups []int) string {
	i := p.SubexpIndex(name)
	if i < 0 || groups[2*i] < 0 {
		return ""
	}
	return string(text[groups[2*i]:groups[2*i+1]])
}

// Plain is a line that nothing was written around.
func Plain(raw []byte, cut bool, at history.Span) Line {
	raw = bytes.TrimPrefix(bytes.TrimLeft(bytes.TrimSuffix(raw, []byte("\r")), "\x00"), []byte("\xef\xbb\xbf"))
	return Line{Text: withoutColours(raw), Whole: raw, Cut: cut, At: at}
}

// escape is a sequence by which a terminal is told of colours, titles and links.
var escape = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])`)

func withoutColours(text []byte) []byte {
	if bytes.IndexByte(text, 0x1b) < 0 {
		return text
	}
	return escape.ReplaceAll(text, nil)
}

// Lines makes lines of what a log has: container runtimes write a long line in pieces (CRI marks them P, and the last F; docker's json-file
// gives only the last its end), those of two streams between one another. The zero value is ready for one log.
type Lines struct {
	open map[string]*pieces // by stream
}

// pieces of a line whose last one has not come.
type pieces struct {
	text []byte
	cut  bool
	from int64
	last envelope
}

// envelope is what a runtime wrote around a line, or a piece of one.
type envelope struct {
	stamp, stream string
	text          []byte
	more          bool // another piece follows
	docker        bool
}

// Add takes what stands between two ends of lines in the log, and tells of a line once it is whole.
func (l *Lines) Add(raw []byte, cut bool, at history.Span, tell func(Line)) {
	line := Plain(raw, cut, at)
	e, wrapped := unwrap(line.Whole)
	if !wrapped || cut {
		tell(line)
		return
	}
	p := l.open[e.stream]
	switch {
	case p == nil && !e.more:
		line.Text = withoutColours(e.text)
		tell(line)
		return
	case p == nil:
		p = &pieces{from: at.From}
		if l.open == nil {
			l.open = map[string]*pieces{}
		}
		l.open[e.stream] = p
	}
	p.add(e)
	if !e.more {
		delete(l.open, e.stream)
		tell(p.line(at.To))
	}
}

// End tells of the lines of which a piece is missing.
func (l *Lines) End(to int64, tell func(Line)) {
	for _, stream := range []string{"stdout", "stderr"} {
		if p := l.open[stream]; p != nil {
			p.cut = true
			tell(p.line(to))
		}
	}
	l.open = nil
}

func (p *pieces) add(e envelope) {
	if room := Limit - len(p.text); len(e.text) > room {
		e.text, p.cut = e.text[:room], true
	}
	p.text = append(p.text, e.text...)
	e.text = nil
	p.last = e
}

// line is all pieces that came, in the envelope of the last.
func (p *pieces) line(to int64) Line {
	whole := []byte(p.last.stamp + " " + p.last.stream + " F " + string(p.text))
	if p.last.docker {
		whole, _ = json.Marshal(map[string]string{"log": string(p.text) + "\n", "stream": p.last.stream, "time": p.last.stamp}) // texts can be marshalled
	}
	return Line{Text: withoutColours(p.text), Whole: whole, Cut: p.cut, At: history.Span{From: p.from, To: to}}
}

// unwrap finds the envelope of a container runtime around a line.
func unwrap(line []byte) (e envelope, ok bool) {
	if bytes.HasPrefix(line, []byte(`{"log":`)) {
		return undocker(line)
	}
	if len(line) == 0 || line[0] < '0' || line[0] > '9' {
		return e, false
	}
	stamp, rest, _ := bytes.Cut(line, []byte(" "))
	stream, rest, _ := bytes.Cut(rest, []byte(" "))
	tags, text, _ := bytes.Cut(rest, []byte(" "))
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	e = envelope{stamp: string(stamp), stream: string(stream), text: text, more: string(tag) == "P"}
	return e, e.dated() && (e.more || string(tag) == "F")
}

// undocker finds the envelope of docker's json-file.
func undocker(line []byte) (e envelope, ok bool) {
	var x struct{ Log, Stream, Time string }
	if json.Unmarshal(line, &x) != nil {
		return e, false
	}
	text, ended := bytes.CutSuffix([]byte(x.Log), []byte("\n"))
	e = envelope{stamp: x.Time, stream: x.Stream, text: bytes.TrimSuffix(text, []byte("\r")), more: !ended, docker: true}
	return e, e.dated()
}

// dated reports a stream and a time, as runtimes name them.
func (e *envelope) dated() bool {
	if e.stream != "stdout" && e.stream != "stderr" {
		return false
	}
	_, err := time.Parse(time.RFC3339Nano, e.stamp)
	return err == nil
}

// WhyCut says to a person what Cut means.
const WhyCut = "a line is longer than 4 MiB, or its end never came"
