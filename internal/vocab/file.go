package vocab

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

// File is a document that is being read: its problems, and where in it each value stands, so that a check can name a path such as
// "faults[1].kill.phase" and get its line.
type File struct {
	*Vocabulary
	Name   string
	Root   *yaml.Node                                     // nil where the text is no document
	Stored bool                                           // it was right when it was written: what is refused since then is read
	Facts  map[string]bool                                // what conditions @NAME ask of the file as a whole
	Refs   func(list string) (names []string, known bool) // the names of a list that rules refer to; not known = one may have been lost to another problem

	lines     []string
	hidden    bool // no line is shown; nor, of what is decoded, a key or a value
	problems  Problems
	positions map[string]*yaml.Node // value, by path
	invalid   []string              // paths that did not decode: nothing more is said about them
	adopted   map[*yaml.Node]place  // values of this document that stand in another file
	attached  []*File               // their problems are told with those of this file
}

// place is a path in a file.
type place struct {
	in   *File
	path string // there; "" = the same as here
}

// Open reads the only document in data; name is what its problems are called by. Of a hidden file no line is shown, and no word of it
// is repeated but those of the vocabulary.
func (y *Vocabulary) Open(name string, data []byte, hidden bool) *File {
	f := y.Blank(name)
	f.lines = strings.Split(string(bytes.ToValidUTF8(data, []byte("?"))), "\n")
	f.hidden = hidden
	f.Root = f.read(data)
	return f
}

// Blank is a file without a document, for values that come from somewhere else.
func (y *Vocabulary) Blank(name string) *File {
	return &File{Vocabulary: y, Name: name, positions: map[string]*yaml.Node{}, hidden: true}
}

// Err is everything that is wrong with the file, of type Problems, or nil.
func (f *File) Err() error {
	all := f.problems
	for _, other := range f.attached {
		all = append(all, other.problems...)
	}
	if len(all) == 0 {
		return nil
	}
	foreign := func(p Problem) int { // the file's own problems come first
		if p.File == f.Name {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(foreign(a), foreign(b)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return all
}

// Problems is how many there are of the file itself.
func (f *File) Problems() int { return len(f.problems) }

// Attach lets the problems of another file be told with those of this one.
func (f *File) Attach(other *File) { f.attached = append(f.attached, other) }

// Adopt says that the value at path stands in another file, at that path there.
func (f *File) Adopt(path string, n *yaml.Node, in *File, there string) {
	f.positions[path] = n
	if in == f {
		return
	}
	if f.adopted == nil {
		f.adopted = map[*yaml.Node]place{}
	}
	f.adopted[n] = place{in, there}
}

// Set says where the value at path stands.
func (f *File) Set(path string, n *yaml.Node) { f.positions[path] = n }

// Add says what is wrong with the value at path, which stands at n, and that it cannot be used. Where it stands in another file, its
// words are left out.
func (f *File) Add(path string, n *yaml.Node, format string, args ...any) {
	if other, is := f.adopted[n]; is {
		other.in.addAt(cmp.Or(other.path, path), n.Line, n.Column, format, other.in.masked(args)...)
		f.invalid = append(f.invalid, path)
		return
	}
	f.addAt(path, n.Line, n.Column, format, args...)
}

// masked are the arguments of a message about a file: of a hidden one only places and our own limits.
func (f *File) masked(args []any) []any {
	if !f.hidden {
		return args
	}
	masked := slices.Clone(args)
	for i := range masked {
		switch masked[i].(type) {
		case int, int64, float64:
		default:
			masked[i] = "***"
		}
	}
	return masked
}

// Lose says that the value at path cannot be used, for a reason that is told elsewhere.
func (f *File) Lose(path string) { f.invalid = append(f.invalid, path) }

func (f *File) addAt(path string, line, column int, format string, args ...any) {
	message := RedactLine(fmt.Sprintf(format, args...))
	if path != "" {
		f.invalid = append(f.invalid, path)
		message = strings.ReplaceAll(path, "\n", " ") + ": " + message
	}
	message = printable(message) // a name in it may have what a terminal obeys
	p := Problem{File: f.Name, Line: line, Column: column, Message: message}
	if !f.hidden && line >= 1 && line <= len(f.lines) {
		p.Source, p.caret = excerpt(f.lines[line-1], column)
	}
	if !slices.Contains(f.problems, p) { // two checks may find the same
		f.problems = append(f.problems, p)
	}
}

// Check says what is wrong with the value at path, unless it is invalid: one mistake, one message. A value that was not written has
// the place of what contains it.
func (f *File) Check(path, format string, args ...any) {
	if f.Invalid(path) {
		return
	}
	known := len(f.invalid)
	f.Add(path, f.Place(path), format, args...)
	f.invalid = f.invalid[:known] // two checks may find two mistakes in one value
}

// Invalid reports whether the decoder complained about path, a part of it, or what contains it.
func (f *File) Invalid(path string) bool {
	return slices.ContainsFunc(f.invalid, func(b string) bool { return within(path, b) || within(b, path) })
}

// Node is where the value at path stands; nil = it was not written.
func (f *File) Node(path string) *yaml.Node { return f.positions[path] }

// Place is where the value at path stands, or what contains it.
func (f *File) Place(path string) *yaml.Node {
	for {
		if n := f.positions[path]; n != nil {
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

// Join is the path of a field of the section at path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// At is the path of an entry of the list at path.
func At(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

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
	before, after := RedactLine(string(runes[:cut])), RedactLine(string(runes[cut:]))
	// A secret's name may stand before the cut and the secret after it.
	if whole := RedactLine(string(runes)); whole != before+after && strings.HasPrefix(whole, before) {
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
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return ' '
	}, s)
}

var (
	secretInURL  = regexp.MustCompile(`://[^\s"']*@`)
	secretInArg  = regexp.MustCompile(`(?i)(?:password|passwd|secret|token|credential|api[_-]?key|access[_-]?key)[a-z_-]*=[^\s"'&,}\]]+`)
	secretInLine = regexp.MustCompile(`(?i)(?:password|passwd|secret|token|credential|authorization|cookie|api[_-]?key)[\w-]*["']?\s*:\s*(\S)`)
	textThenKey  = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^"'{\[&*|>!].*?)\s*(,\s*["']?[\w.-]+["']?\s*:(?:\s|$))`)
)

// Redact takes user, password and the like out of URLs and command arguments.
func Redact(s string) string {
	s = secretInURL.ReplaceAllString(s, "://***@")
	return secretInArg.ReplaceAllStringFunc(s, func(arg string) string {
		name, value, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(value, "(?P<") || strings.HasPrefix(value, "(?<") { // a pattern that finds one is none
			return arg
		}
		return name + "=***"
	})
}

// RedactLine is Redact for a line of YAML, where a secret may also be the value of a telling key: in braces a text up to the next key, else
// all that follows. The key token of a map is no such key: it names a field in somebody's log or stream.
func RedactLine(s string) string {
	for from := 0; ; {
		found := secretInLine.FindStringSubmatchIndex(s[from:])
		if found == nil {
			return Redact(s)
		}
		key, value := from+found[0], from+found[2]
		brace := openBrace(s[:key])
		if strings.HasPrefix(s[key:], "token:") && strings.ContainsRune(" {", rune(s[max(0, key-1)])) && strings.HasSuffix(s[:brace], "map: ") {
			from = value
			continue
		}
		end := len(s)
		if next := textThenKey.FindStringSubmatchIndex(s[value:]); next != nil && brace > 0 {
			end = value + next[2]
		}
		s, from = s[:value]+"***"+s[end:], value+len("***")
	}
}

// openBrace is where the innermost brace begins that s leaves open; 0 = none does.
func openBrace(s string) int {
	for i, closed := len(s)-1, 0; i > 0; i-- {
		switch {
		case s[i] == '}':
			closed++
		case s[i] == '{' && closed == 0:
			return i
		case s[i] == '{':
			closed--
		}
	}
	return 0
}
