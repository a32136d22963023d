package vocab

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxFile bounds a file: a bigger one is something else.
const MaxFile = 1 << 20

// read gives the root of the only document in data, or nil after adding what is wrong with its syntax.
func (f *File) read(data []byte) *yaml.Node {
	if len(data) > MaxFile {
		f.addAt("", 1, 1, "the file is over %d bytes: not an experiment", MaxFile)
		return nil
	}
	if line, column := notText(data); line > 0 {
		f.addAt("", line, column, "a character that is no text: save the file as UTF-8, without control characters")
		return nil
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && Null(doc.Content[0]) {
		f.addAt("", 1, 1, "the file is empty")
		return nil
	}
	if err == nil {
		if err2 := dec.Decode(&second); err2 == nil {
			f.Add("", &second, "a second document: an experiment is one document")
		} else if !errors.Is(err2, io.EOF) {
			err = err2
		}
	}
	if err != nil {
		f.syntax(err)
		return nil
	}
	if !f.plain(doc.Content[0]) {
		return nil
	}
	return doc.Content[0]
}

// notText is the place of the first byte that YAML does not read, and 0 where there is none: of these the parser gives no line.
func notText(data []byte) (line, column int) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) { // UTF-16 says so itself
		return 0, 0
	}
	line = 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		column++
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == utf8.RuneError && size == 1, r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return line, column
		}
		i += size
	}
	return 0, 0
}

// parserErrors are words of the parser that say what it was looking for, and what helps. Of those that it did not find, yaml.v3 counts the
// lines from 0.
var parserErrors = map[string]string{
	"did not find expected key":                              "this line is indented otherwise than those that it belongs to, or a text before it does not end",
	"did not find expected '-' indicator":                    "this line is indented otherwise than the entries of the list before it",
	"did not find expected node content":                     "a value is missing: a text that begins with one of , ] } stands in quotes",
	"did not find expected ',' or ']'":                       "in brackets a comma or the closing ] is missing; a text with a bracket stands in quotes",
	"did not find expected ',' or '}'":                       "in braces a comma or the closing } is missing; a text with a brace stands in quotes",
	"did not find expected <document start>":                 "an experiment is one document: nothing stands behind its end",
	"could not find expected ':'":                            "a field is written as name: value, with a space behind the colon",
	"mapping values are not allowed in this context":         "a colon where none can stand: indent fields alike, write \"- \" before an entry of a list, and a text with a colon in quotes",
	"found unexpected end of stream":                         "a text in quotes does not end",
	"found unknown escape character":                         "in double quotes a backslash begins an escape: take single quotes",
	"found character that cannot start any token":            "a text that begins with one of % @ ` stands in quotes",
	"block sequence entries are not allowed in this context": "a list begins on a line of its own",
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced$`)

var tabLed = regexp.MustCompile(`^ *\t`)

// parserSays are the words of the parser, without what it puts before them, and the line that it names.
func parserSays(err error) (text string, line int) {
	text, line = err.Error(), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		line, _ = strconv.Atoi(m[1])
	}
	return text, line
}

func (f *File) syntax(err error) {
	text, line := parserSays(err)
	if m := unknownAnchor.FindStringSubmatch(text); m != nil { // the parser has no line
		for i, src := range f.lines {
			if at := strings.Index(src, "*"+m[1]); at >= 0 {
				f.plain(&yaml.Node{Kind: yaml.AliasNode, Value: m[1], Line: i + 1, Column: utf8.RuneCountInString(src[:at]) + 1})
				return
			}
		}
	}
	if parserErrors[text] != "" && strings.HasPrefix(text, "did not find expected ") {
		line++
	}
	line = min(max(line, 1), len(f.lines))
	if strings.Contains(text, "tab character") { // the line is where the value began that the tab ends
		if at := slices.IndexFunc(f.lines[line-1:], tabLed.MatchString); at > 0 {
			line += at
		}
	}
	src, message := f.lines[line-1], "no YAML from here on"
	switch {
	case tabLed.MatchString(src):
		message += ": a tab stands before the first word; indent with spaces"
	case !f.hidden: // the parser's words may quote the line
		message += ": " + cmp.Or(parserErrors[text], text)
	}
	f.addAt("", line, 1+len(src)-len(strings.TrimLeft(src, " ")), "%s", message)
}

// plain refuses, everywhere in the document, what would make a value depend on another place than its own.
func (f *File) plain(n *yaml.Node) bool {
	ok := true
	switch {
	case f.hidden && (n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0):
		f.Add("", n, "aliases, anchors and tags are not read: write the values out")
		return false
	case n.Kind == yaml.AliasNode:
		f.Add("", n, "aliases (*%s) are not read: write the value out", n.Value)
		return false
	case n.Tag == "!!merge":
		f.Add("", n, "merge keys (<<) are not read: write the values out")
		return false
	case n.Anchor != "":
		f.Add("", n, "anchors (&%s) are not read: write the value out where it is needed", n.Anchor)
		ok = false
	case n.Style&yaml.TaggedStyle != 0:
		f.Add("", n, "tags (%s) are not read", n.Tag)
		ok = false
	}
	for _, child := range n.Content {
		ok = f.plain(child) && ok
	}
	return ok
}
