package experiments

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// Problems is everything that is wrong with one file, in the order of its lines. Never empty.
type Problems []Problem

// Problem is one thing that is wrong, with its place. No field carries a secret of the file.
type Problem struct {
	File         string
	Line, Column int    // from 1
	Message      string // "slos[0].lock: no lock is called ..."
	Source       string // the offending line
	caret        int    // column of the place in Source
}

// Error gives every problem as `file:line:column: message`, the offending line, and a caret.
func (p Problems) Error() string {
	var b strings.Builder
	for i := range p {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p[i].String())
	}
	return b.String()
}

func (p *Problem) String() string {
	head := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if strings.TrimSpace(p.Source) == "" {
		return head
	}
	gutter := fmt.Sprintf("%5d | ", p.Line)
	return head + "\n" + gutter + p.Source + "\n" + strings.Repeat(" ", len(gutter)+p.caret-1) + "^"
}

// collector gathers problems and remembers where in the file each value stood, so that a check can name a path such as
// "faults[1].kill.phase" and get its line.
type collector struct {
	file   string
	lines  []string
	hidden bool // no line is shown; nor, of what is decoded, a key or a value
	list   Problems
	places map[string]*yaml.Node // value, by path
	broken []string              // paths that did not decode: nothing more is said about them
	sheet  *sheet                // the policy sheet, where the file names one: some places are in it
}

func newCollector(file string, data []byte) *collector {
	lines := strings.Split(string(bytes.ToValidUTF8(data, []byte("?"))), "\n")
	return &collector{file: file, lines: lines, places: map[string]*yaml.Node{}}
}

func (c *collector) problems() error {
	if len(c.list) == 0 {
		return nil
	}
	foreign := func(p Problem) int { // the file's own problems come first
		if p.File == c.file {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(c.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(foreign(a), foreign(b)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return c.list
}

// add says what is wrong with the value at path, which stands at n. Where that is in a policy sheet, its words are left out.
func (c *collector) add(path string, n *yaml.Node, format string, args ...any) {
	if s := c.sheet; s != nil && s.nodes[n] != "" {
		masked := slices.Clone(args)
		for i := range masked {
			switch masked[i].(type) {
			case int, int64, float64: // places and our own limits
			default:
				masked[i] = "***"
			}
		}
		s.addAt(s.nodes[n], n.Line, n.Column, format, masked...)
		c.broken = append(c.broken, path)
		return
	}
	c.addAt(path, n.Line, n.Column, format, args...)
}

func (c *collector) addAt(path string, line, column int, format string, args ...any) {
	message := redactLine(fmt.Sprintf(format, args...))
	if path != "" {
		c.broken = append(c.broken, path)
		message = path + ": " + message
	}
	p := Problem{File: c.file, Line: line, Column: column, Message: message}
	if !c.hidden && line >= 1 && line <= len(c.lines) {
		p.Source, p.caret = excerpt(c.lines[line-1], column)
	}
	if !slices.Contains(c.list, p) { // two checks may find the same
		c.list = append(c.list, p)
	}
}

// where is the place of the value at path.
func (c *collector) where(path string) Place {
	n := c.place(path)
	return Place{File: c.file, Line: n.Line, Column: n.Column}
}

// check says what is wrong with the value at path, unless the decoder has already complained about it, about a part of it
// or about what contains it: one mistake, one message. A value that was not written has the place of what contains it.
func (c *collector) check(path, format string, args ...any) {
	if c.touched(path) {
		return
	}
	known := len(c.broken)
	c.add(path, c.place(path), format, args...)
	c.broken = c.broken[:known] // two checks may find two faults with one value
}

// touched reports whether the decoder complained about path, a part of it, or what contains it.
func (c *collector) touched(path string) bool {
	return slices.ContainsFunc(c.broken, func(b string) bool { return within(path, b) || within(b, path) })
}

func (c *collector) place(path string) *yaml.Node {
	for {
		if n := c.places[path]; n != nil {
			return n
		}
		if path == "" {
			return &yaml.Node{Line: 1, Column: 1}
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// within reports whether path is outer or lies inside it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

const (
	maxExcerpt = 160  // keeps a message to a screen's width
	maxLine    = 4096 // a longer line is shown to nobody
)

// excerpt is the printable, redacted form of a line, and the column in it of what stood at column.
func excerpt(line string, column int) (string, int) {
	if len(line) > maxLine {
		return "", 0
	}
	runes := []rune(strings.TrimRight(line, "\r"))
	cut := min(max(column-1, 0), len(runes))
	before, after := redactLine(string(runes[:cut])), redactLine(string(runes[cut:]))
	// A secret's name may stand before the cut and the secret after it.
	if whole := redactLine(string(runes)); whole != before+after && strings.HasPrefix(whole, before) {
		after = whole[len(before):]
	}
	b, a := []rune(printable(before)), []rune(printable(after))
	if over := len(b) - maxExcerpt/2; over > 0 && len(b)+len(a) > maxExcerpt {
		b = append([]rune("..."), b[over:]...)
	}
	if room := maxExcerpt - len(b); len(a) > room {
		a = append(a[:room:room], []rune("...")...)
	}
	return string(b) + string(a), len(b) + 1
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

var (
	secretInURL  = regexp.MustCompile(`://[^\s"']*@`)
	secretInArg  = regexp.MustCompile(`(?i)((?:password|passwd|secret|token|credential|api[_-]?key|access[_-]?key)[a-z_-]*=)[^\s"'&,}\]]+`)
	secretInLine = regexp.MustCompile(`(?i)((?:password|passwd|secret|token|credential)\w*["']?\s*:\s*)\S.*`)
)

// Redact takes user, password and the like out of URLs and command arguments.
func Redact(s string) string {
	s = secretInURL.ReplaceAllString(s, "://***@")
	return secretInArg.ReplaceAllString(s, "${1}***")
}

// redactLine is Redact for a line of YAML, where a secret may also be the value of a telling key.
func redactLine(s string) string {
	return Redact(secretInLine.ReplaceAllString(s, "${1}***"))
}
