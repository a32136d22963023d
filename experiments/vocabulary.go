package experiments

import (
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// vocabulary is what the engine is told of the types of this package.
var vocabulary = &vocab.Vocabulary{
	Home:     reflect.TypeFor[Experiment]().PkgPath(),
	Comments: describedFields,
	Lists:    map[string]func() []string{"faults": func() []string { return append(fault.Allowed(), AllowMonitor) }},
	Formats:  formats,
	Facts:    facts,
	Unions: func() map[reflect.Type]*vocab.Union {
		return map[reflect.Type]*vocab.Union{reflect.TypeFor[fault.Spec](): {
			Words: fault.Kinds(),
			New:   func(word string) any { return fault.New(word) },
			Word:  func(section any) string { return section.(fault.Spec).Kind() },
			Says:  fault.Meaning,
		}}
	},
}

// descriptions are the comments of the fields, as the test of the schema takes them from the source: reflection has none. A line is
// Type.Field, a tab, and the text.
//
//go:embed descriptions.txt
var descriptions string

var describedFields = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	for line := range strings.Lines(descriptions) {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		texts[name] = text
	}
	return texts
})

// SchemaFile is what the schema is called where it lies beside experiments: their first line, Modeline, leads editors to it.
const SchemaFile = "lockdrill.schema.json"

// Modeline is the comment by which editors find the schema.
const Modeline = "# yaml-language-server: $schema=" + SchemaFile + "\n"

// Schema is the JSON Schema of an experiment file. What it refuses, Parse refuses; Parse knows more.
func Schema() ([]byte, error) { return schemaOf("lockdrill experiment", &file{}) }

func schemaOf(title string, doc any) ([]byte, error) {
	vocabulary.Default(doc)
	return vocabulary.Schema(title, doc)
}

// Explain says of a field of an experiment file, by its name or by its path (slos[].takeover.max), or of a word that a field can have,
// all that its declaration says.
func Explain(word string) []vocab.Entry { return vocabulary.Explain(word, &file{}) }

// Words are the names of all fields of an experiment file, and the words that they can have, sorted.
func Words() []string { return vocabulary.Names(&file{}) }

// Problems is everything that is wrong with one file, in the order of its lines. Never empty.
type Problems = vocab.Problems

// Problem is one thing that is wrong, with its place. No field carries a secret of the file.
type Problem = vocab.Problem

// Setting is one value of an experiment under its path in the file: system.locks.job.policy.ttl, 60s.
type Setting = vocab.Setting

// Settings lists what e has set, in the order of the file that Marshal writes. Entries of a list go by their name, id or lock where
// they have one, else by their number from 1, so that one lock more does not rename the others.
func Settings(e *Experiment) []Setting {
	copied := *e
	return vocabulary.Settings(&copied)
}

// Redact takes user, password and the like out of URLs and command arguments.
func Redact(s string) string { return vocab.Redact(s) }

// Nearest is the known word that is nearest to word, or "" where none is near.
func Nearest(word string, known []string) string { return vocab.Nearest(word, known) }

// ParseRate reads a rate as a file has it, such as 20/s, 90/m or 500/h, and gives it per second.
func ParseRate(text string) (float64, error) { return vocab.ParseRate(text) }
