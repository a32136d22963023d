package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lockdrill/lockdrill/reports"
)

// streams are where a command reads from and writes to. Results go to Out, the story to Err.
type streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// terminal reports whether w is a terminal that can be drawn on, and how wide it is; elsewhere 100 columns are assumed.
func terminal(w io.Writer) (width int, ok bool) {
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
	width, _ := terminal(w)
	return reports.Options{Width: width, Color: colored(w)}
}

// output is the value of -o: text or json.
type output string

const (
	outputText output = "text"
	outputJSON output = "json"
)

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "text|json" }

func (o *output) Set(s string) error {
	switch v := output(s); v {
	case outputText, outputJSON:
		*o = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", outputText, outputJSON)
}

// verboseFlag adds --verbose to the flags of a command that prints a closing summary.
func verboseFlag(flags *pflag.FlagSet, verbose *bool) {
	flags.BoolVar(verbose, "verbose", false, "print all that was measured, and not the answers alone")
}

// outputFlag adds -o to a command's flags; the value is final once they are parsed.
func outputFlag(flags *pflag.FlagSet) *output {
	o := outputText
	flags.VarP(&o, "output", "o", "form of the result on stdout")
	return &o
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
