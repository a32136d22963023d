package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// MaxFile bounds an experiment file: a bigger one is some other file.
const MaxFile = 1 << 20

// file is the document as it is spelled: two lines that say what it is, and the experiment.
type file struct {
	APIVersion string `file:"apiVersion" rule:"required,words=lockdrill/v1"` // version of this file format
	Kind       string `rule:"required,words=Experiment"`                     // what the file is
	Experiment
}

// Load reads and checks an experiment file. A file that is not right gives Problems; one that cannot be read, another error.
func Load(path string) (*Experiment, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read experiment: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read experiment: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load for a file that is already in memory; name is what its problems are called by, and a policy sheet is sought
// beside it.
// The error is always of type Problems.
func Parse(name string, data []byte) (*Experiment, error) { return parse(name, data, false) }

// ParseRun is Parse of the file of a recorded run. Promises that cannot be answered are read as they are: the judge says why of each, also
// where the file is from before they were refused.
func ParseRun(name string, data []byte) (*Experiment, error) { return parse(name, data, true) }

func parse(name string, data []byte, recorded bool) (*Experiment, error) {
	doc := file{}
	c := newCollector(name, data)
	if root := c.read(data); root != nil {
		d := &decoder{collector: c}
		d.value("", nil, root, settable(&doc), rule{})
		d.readSheet(&doc.Experiment)
		d.rolls(&doc.Experiment)
		(&checker{collector: c, e: &doc.Experiment, recorded: recorded}).all()
	}
	if c.sheet != nil {
		c.list = append(c.list, c.sheet.list...)
	}
	if err := c.problems(); err != nil {
		return nil, err
	}
	fill(&doc.Experiment)
	return &doc.Experiment, nil
}

// Digest names a file's bytes: "sha256:" and 64 hex digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fill derives the defaults that depend on other values.
func fill(e *Experiment) {
	if e.Limits.MaxKills == 0 {
		e.Limits.MaxKills = 2 * e.declaredKills()
	}
	if e.Kubernetes != nil || e.Observed() {
		e.System.Restart = 0
	}
	if e.Kubernetes != nil && e.Observed() {
		e.Kubernetes.Workers, e.Kubernetes.Grace = "", 0
	}
	if !slices.ContainsFunc(e.System.Locks, func(l Lock) bool { return l.Lease != "" }) {
		e.Probes.Leases = ProbeSettings{}
	}
	if looks := &e.Probes.LockKeys; e.StoreKind() == StoreLease && *looks == keyLooks {
		*looks = leaseLooks
	}
	for i := range e.Expect {
		if x := &e.Expect[i]; x.Fault == "" {
			x.Fault = e.Faults[0].ID
		}
	}
	for _, s := range e.AlertRows() {
		if s.Fault == "" && !s.Silent {
			s.Fault = e.Faults[0].ID
		}
		if s.ResolvesWithin == 0 && !s.Silent {
			s.ResolvesWithin = s.Within
		}
	}
	for i := range e.Faults {
		if f := &e.Faults[i]; f.Net() && f.everybody() {
			f.Spec.(fault.Aimed).AimAt().All = true
		}
	}
}

// declaredKills is how many replicas the faults may end: all on one node where that is drained.
func (e *Experiment) declaredKills() int {
	n := 0
	for i := range e.Faults {
		f := &e.Faults[i]
		switch t := f.Traits(); {
		case t.WholeNode:
			n += f.Repeat.Count * e.System.Replicas
		case t.Kills:
			n += f.Repeat.Count
		}
	}
	return n
}

// read gives the root of the only document in data, or nil after adding what is wrong with its syntax.
func (c *collector) read(data []byte) *yaml.Node {
	if len(data) > MaxFile {
		c.addAt("", 1, 1, "the file is over %d bytes: not an experiment", MaxFile)
		return nil
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]) {
		c.addAt("", 1, 1, "the file is empty")
		return nil
	}
	if err == nil {
		if err2 := dec.Decode(&second); err2 == nil {
			c.add("", &second, "a second document: an experiment is one document")
		} else if !errors.Is(err2, io.EOF) {
			err = err2
		}
	}
	if err != nil {
		c.syntax(err)
		return nil
	}
	if !c.plain(doc.Content[0]) {
		return nil
	}
	return doc.Content[0]
}

var parserErrors = []string{
	"did not find expected key", "did not find expected '-' indicator", "did not find expected node content",
	"did not find expected ',' or ']'", "did not find expected ',' or '}'", "did not find expected <document start>",
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

var tabLed = regexp.MustCompile(`^ *\t`)

func (c *collector) syntax(err error) {
	text, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		line, _ = strconv.Atoi(m[1])
	}
	if slices.Contains(parserErrors, text) {
		line++ // yaml.v3 counts the lines of these from 0
	}
	line = min(max(line, 1), len(c.lines))
	if strings.Contains(text, "tab character") { // the line is where the value began that the tab ends
		if at := slices.IndexFunc(c.lines[line-1:], tabLed.MatchString); at > 0 {
			line += at
		}
	}
	message := "no YAML from here on"
	if !c.hidden { // the parser's words may quote the line
		message += ": " + text
	}
	src := c.lines[line-1]
	c.addAt("", line, 1+len(src)-len(strings.TrimLeft(src, " ")), "%s", message)
}

// plain refuses, everywhere in the document, what would make a value depend on another place than its own.
func (c *collector) plain(n *yaml.Node) bool {
	ok := true
	switch {
	case c.hidden && (n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0):
		c.add("", n, "aliases, anchors and tags are not read: write the values out")
		return false
	case n.Kind == yaml.AliasNode:
		c.add("", n, "aliases (*%s) are not read: write the value out", n.Value)
		return false
	case n.Tag == "!!merge":
		c.add("", n, "merge keys (<<) are not read: write the values out")
		return false
	case n.Anchor != "":
		c.add("", n, "anchors (&%s) are not read: write the value out where it is needed", n.Anchor)
		ok = false
	case n.Style&yaml.TaggedStyle != 0:
		c.add("", n, "tags (%s) are not read", n.Tag)
		ok = false
	}
	for _, child := range n.Content {
		ok = c.plain(child) && ok
	}
	return ok
}
