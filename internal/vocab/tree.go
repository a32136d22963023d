package vocab

import (
	"bytes"
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

var parserErrors = []string{
	"did not find expected key", "did not find expected '-' indicator", "did not find expected node content",
	"did not find expected ',' or ']'", "did not find expected ',' or '}'", "did not find expected <document start>",
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

var tabLed = regexp.MustCompile(`^ *\t`)

func (f *File) syntax(err error) {
	text, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		line, _ = strconv.Atoi(m[1])
	}
	if slices.Contains(parserErrors, text) {
		line++ // yaml.v3 counts the lines of these from 0
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
		message += ": " + text
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
