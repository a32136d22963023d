package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lockdrill/lockdrill/reports"
)

// streams are where a command reads from and writes to. Results go to Out, the story to Err.
type streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// sink is standard output, or the file of -o, which gets what a command prints in one step when the command ends.
type sink struct {
	to   io.Writer // standard output
	path string    // "" = standard output
	text bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	if s.path == "" {
		return s.to.Write(p)
	}
	return s.text.Write(p)
}

// close writes the file. A command that printed nothing leaves it as it is.
func (s *sink) close() error {
	if s.path == "" || s.text.Len() == 0 {
		return nil
	}
	return writeAtomically(s.path, s.text.Bytes())
}

// terminal reports whether w is a terminal that can be drawn on, and how wide it is; elsewhere 100 columns are assumed.
func terminal(w io.Writer) (width int, ok bool) {
	if s, ok := w.(*sink); ok && s.path == "" {
		w = s.to
	}
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return 100, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 100, true
	}
	return width, true
}

// colored reports whether w may be written to in colour: a terminal, and no NO_COLOR.
func colored(w io.Writer) bool {
	_, ok := terminal(w)
	return ok && os.Getenv("NO_COLOR") == ""
}

// lookOf is how a report looks on w.
func lookOf(w io.Writer) reports.Options {
	if s, ok := w.(*sink); ok && s.path != "" {
		return reports.Options{}
	}
	width, _ := terminal(w)
	return reports.Options{Width: width, Color: colored(w)}
}

// output is the value of -f: text, json, or another form that the command has.
type output string

const (
	outputText output = "text"
	outputJSON output = "json"
	outputMD   output = "md"
	outputHTML output = "html"
)

// formValue is a value of -f among those that the command has.
type formValue struct {
	*output
	among []output
}

func (v formValue) String() string {
	if v.output == nil {
		return ""
	}
	return string(*v.output)
}

func (v formValue) names() (names []string) {
	for _, o := range v.among {
		names = append(names, string(o))
	}
	return names
}

// Type is what help shows: the forms, or FORM where they are so many that the command lists them itself.
func (v formValue) Type() string {
	if len(v.among) > 4 {
		return "FORM"
	}
	return strings.Join(v.names(), "|")
}

func (v formValue) Set(s string) error {
	if !slices.Contains(v.among, output(s)) {
		return fmt.Errorf("must be %s", strings.Join(v.names(), ", "))
	}
	*v.output = output(s)
	return nil
}

// verboseFlag adds --verbose to the flags of a command that prints a closing summary.
func verboseFlag(flags *pflag.FlagSet, verbose *bool) {
	flags.BoolVar(verbose, "verbose", false, "print all that was measured, and not the answers alone")
}

// formFlags adds -f and -o to a command: the form of its result, text, json or one of more, and the file that gets it. The form is final
// once the flags are parsed.
func formFlags(cmd *cobra.Command, to streams, more ...output) *output {
	o := outputText
	v := formValue{&o, append([]output{outputText, outputJSON}, more...)}
	cmd.Flags().VarP(v, "format", "f", "form of the result")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(v.names(), cobra.ShellCompDirectiveNoFileComp))
	fileFlag(cmd, to)
	return &o
}

// fileFlag adds -o to a command.
func fileFlag(cmd *cobra.Command, to streams) {
	cmd.Flags().StringVarP(&to.Out.(*sink).path, "output", "o", "", "file that gets the result (default standard output)")
}

// writeLines writes lines.
func writeLines(w io.Writer, first string, more ...string) error {
	_, err := fmt.Fprintln(w, strings.Join(append([]string{first}, more...), "\n"))
	return err
}

// writeJSON writes one indented document.
func writeJSON(w io.Writer, v any) error {
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	if err == nil {
		_, err = w.Write(reports.HarmlessJSON(doc.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
