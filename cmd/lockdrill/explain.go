package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history/lint"
	"github.com/lockdrill/lockdrill/lockcore"
)

// wordDoc is the document of `explain WORD -f json`.
type wordDoc struct {
	SchemaVersion int         `json:"schemaVersion"`
	Word          string      `json:"word"`
	Kind          string      `json:"kind"`
	Meaning       string      `json:"meaning"`
	Codes         []wordCode  `json:"codes,omitempty"`  // of verdict.json and exit statuses
	Fields        []wordField `json:"fields,omitempty"` // of an experiment file
}

// wordCode is what the word means where an output has it as a code.
type wordCode struct {
	Kind    string `json:"kind"`
	Meaning string `json:"meaning"`
}

// wordField is a field of an experiment file that has the name, or that can have the word as its value.
type wordField struct {
	Paths   []string `json:"paths"`
	Value   string   `json:"value"`
	Meaning string   `json:"meaning"`
}

func newExplainCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain WORD",
		Short: "Explain a word, a code, a field, a profile or a sum",
		Long: "explain WORD says what a word of lockdrill means: a measure, a lint, a policy's value.\n" +
			"explain CODE says what a code of verdict.json or an exit status means, and explain ROW what a row measures (lock_debt.max).\n" +
			"explain FIELD says what a field of an experiment file takes and is for, by its name or its path (system.locks[].poll).\n\n" +
			"Words: " + strings.Join(wordNames(), ", "),
		Example: "  lockdrill explain takeover\n  lockdrill explain L1\n  lockdrill explain redis.mode",
		Args:    cobra.ArbitraryArgs,
	}
	format := formFlags(cmd, io)
	cmd.ValidArgsFunction = completed(func() []string { return slices.Concat(wordNames(), codeNames(), experiments.Words()) })
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("lockdrill explain: which word? There are %s; and explain profile NAME", strings.Join(wordNames(), ", "))
		}
		name := strings.Join(args, " ")
		w, known := wordOf(name)
		fields, codes := fieldsNamed(name), codesNamed(name)
		if !known {
			w, known = rowNamed(name)
		}
		if !known && len(fields) == 0 && len(codes) == 0 {
			if slices.Contains(experiments.ProfileNames(), name) {
				return usagef("lockdrill explain: %s is a profile: lockdrill explain profile %s", name, name)
			}
			return usagef("lockdrill explain: unknown word %q%s; see lockdrill explain --help", name, didYouMean(name, slices.Concat(wordNames(), codeNames(), experiments.Words())))
		}
		switch {
		case known:
		case len(codes) > 0:
			w, codes = word{name, codes[0].Kind, codes[0].Meaning}, codes[1:]
			known = true
		default:
			w = word{name, "field", fields[0].Meaning}
		}
		if *format == outputJSON {
			return writeJSON(io.Out, wordDoc{1, w.name, w.kind, w.meaning, codes, fields})
		}
		if known {
			tell(io.Out, fmt.Sprintf("%s (%s): %s", w.name, w.kind, w.meaning))
		}
		for _, c := range codes {
			tell(io.Out, fmt.Sprintf("%s (%s): %s", name, c.Kind, c.Meaning))
		}
		for _, f := range fields {
			tell(io.Out, fmt.Sprintf("%s (%s): %s", someOf(f.Paths), strings.ReplaceAll(f.Value, "`", ""), f.Meaning))
		}
		return nil
	}
	cmd.AddCommand(newExplainProfileCmd(io))
	return cmd
}

// fieldsNamed are the fields of an experiment file that have the name or the path, or the word as a value.
func fieldsNamed(name string) (all []wordField) {
	for _, e := range experiments.Explain(strings.ReplaceAll(name, " ", "_")) { // as outputs write it
		all = append(all, wordField{e.Paths, e.Value, e.Says})
	}
	return all
}

// codes are those of verdict.json, and the rules of the worker protocol that its lints name.
func codes() []verdict.Code {
	all := verdict.Codes()
	for _, r := range lint.Rules() {
		all = append(all, verdict.Code{Name: r.Code, Kind: "lint of a worker", Meaning: fmt.Sprintf("a replica broke the rule that %s; docs/worker-protocol.md, %q: %s", r.Says, r.Section, r.Change)})
	}
	return all
}

// codesNamed are the meanings of a code.
func codesNamed(name string) (all []wordCode) {
	for _, c := range codes() {
		if c.Name == name {
			all = append(all, wordCode{c.Kind, c.Meaning})
		}
	}
	return all
}

func codeNames() (names []string) {
	for _, c := range codes() {
		names = append(names, c.Name)
	}
	return names
}

// rowName is a row of a verdict: expect.kill.held[batch].max, metric.errors.delta, takeover.max.of.other.
var rowName = regexp.MustCompile(`^(?:expect\.[^.]+\.)?([a-z_]+)(?:\[[^\]]+\])?\.(.+)$`)

// rowNamed is the measure of a row, and what of it the row is about.
func rowNamed(name string) (word, bool) {
	m := rowName.FindStringSubmatch(name)
	if m == nil {
		return word{}, false
	}
	w, known := wordOf(m[1])
	if !known || w.name != m[1] || w.kind != "measure" && w.name != "alert" {
		return word{}, false
	}
	part, _, _ := strings.Cut(m[2], ".of.")
	part = part[strings.LastIndexByte(part, '.')+1:]
	meaning := w.name + ": " + w.meaning
	of, isWord := wordOf(part)
	fields := fieldsNamed(w.name + "." + part)
	switch {
	case len(fields) > 0:
		meaning += "; " + part + ": " + fields[0].Meaning
	case isWord:
		meaning += "; " + part + ": " + of.meaning
	case w.name != "metric" && w.name != "logs" && w.name != "alert": // these end with names of the file's own
		return word{}, false
	}
	return word{name, "row of a verdict", meaning}, true
}

// someOf are the first of several paths.
func someOf(paths []string) string {
	const most = 4
	if len(paths) <= most {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
}

// profileDoc is the document of `explain profile -f json`; durations of the policy are ns.
type profileDoc struct {
	SchemaVersion int             `json:"schemaVersion"`
	Profile       string          `json:"profile"`
	Key           string          `json:"key,omitempty"`
	KeyPrefix     string          `json:"keyPrefix,omitempty"`
	Policy        lockcore.Policy `json:"policy"`
	Words         []string        `json:"words"`
	Errors        []string        `json:"errors,omitempty"` // what callers of the real lock read
	Beyond        []string        `json:"beyond,omitempty"` // what of the real lock the policy cannot say
}

func newExplainProfileCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "profile NAME",
		Short:   "Show a shipped profile in full, as YAML and in words",
		Long:    "Shipped profiles: " + strings.Join(experiments.ProfileNames(), ", "),
		Example: "  lockdrill explain profile cordum/scheduler-job",
		Args:    cobra.ExactArgs(1),
	}
	format := formFlags(cmd, io)
	cmd.ValidArgsFunction = completed(experiments.ProfileNames)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		l, err := experiments.Profile(args[0])
		if err != nil {
			return usagef("lockdrill explain profile: %w", err)
		}
		if *format == outputJSON {
			return writeJSON(io.Out, profileDoc{1, l.Profile, l.Key, l.KeyPrefix, l.Policy, l.Describe(), errorsOf(l), l.Beyond})
		}
		l.Name = shortName(args[0])
		text, err := lockText(l, args[0])
		if err != nil {
			return err
		}
		return writeText(io.Out, text)
	}
	return cmd
}

// lockText is a lock as YAML, below what it says in words.
func lockText(l *experiments.Lock, title string) (string, error) {
	text, err := experiments.MarshalLock(l)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", title)
	for _, line := range l.Describe() {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	for _, line := range errorsOf(l) {
		fmt.Fprintf(&b, "# Its callers read %s\n", line)
	}
	for _, line := range l.Beyond {
		fmt.Fprintf(&b, "# Not in these words: %s\n", line)
	}
	if len(l.Assumed) > 0 {
		fmt.Fprintf(&b, "# The file leaves out, so this is assumed: %s\n", strings.Join(l.Assumed, ", "))
	}
	b.Write(text)
	return b.String(), err
}

// errorsOf says which errors the callers of a profile's real lock read, and when.
func errorsOf(l *experiments.Lock) (lines []string) {
	of := l.Errors()
	for _, e := range [][2]string{{of.Busy, "when the wait is over"}, {of.Abandoned, "when the lock is given up"}, {of.NoToken, "from a release without a token"}} {
		if e[0] != "" {
			lines = append(lines, fmt.Sprintf("%q %s", e[0], e[1]))
		}
	}
	return lines
}

// shortName is a profile's name without its family.
func shortName(profile string) string { return profile[strings.LastIndex(profile, "/")+1:] }
