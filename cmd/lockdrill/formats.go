package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// format is one form that a run can be reported in.
type format struct {
	name  string
	file  string // in the run's folder; "" = only on demand
	what  string
	write func(io.Writer, reports.Run, reports.Options) error
}

// formats lists the formats. Those with a file are written into the run's folder in this order, the first is the one that people are sent to.
func formats() []format {
	file := func(write func(io.Writer, reports.Run) error) func(io.Writer, reports.Run, reports.Options) error {
		return func(w io.Writer, r reports.Run, _ reports.Options) error { return write(w, r) }
	}
	return []format{
		{"html", "report.html", "the whole run on one page that needs no network", file(reports.HTML)},
		{"md", "report.md", "a summary for a chat or a CI step", reports.Markdown},
		{"junit", "junit.xml", "a testcase an SLO, for CI", file(reports.JUnit)},
		{"prom", "metrics.prom", "metrics in Prometheus' text format", file(func(w io.Writer, r reports.Run) error { return reports.MetricsOf(r).Write(w) })},
		{"postmortem-md", "", "the skeleton of a post-mortem, measured parts filled in", reports.Postmortem},
		{"text", "", "the answers, as text; with --verbose all that was measured", func(w io.Writer, r reports.Run, o reports.Options) error {
			return reports.Terminal(w, r.Judgement, o)
		}},
		{"json", "", "verdict.json", file(writeVerdict)},
		{"csv", "", "a row a takeover trial", file(reports.TakeoversCSV)},
		{"slos-csv", "", "a row an SLO", file(reports.SLOsCSV)},
	}
}

// documentFlags are formFlags of a command whose result is a document.
func documentFlags(cmd *cobra.Command, to streams) *output {
	return formFlags(cmd, to, outputHTML, outputMD)
}

// present prints data, or what d says of it: as text for the screen, as Markdown for a chat or a CI step, or as a page.
func present(io streams, form output, data any, d *doc.Document, screen, chat doc.Level) error {
	switch form {
	case outputJSON:
		return writeJSON(io.Out, data)
	case outputMD:
		return writeText(io.Out, doc.Markdown(d, chat))
	case outputHTML:
		return reports.Write(io.Out, d)
	}
	return show(io.Out, d, screen)
}

func writeText(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// show writes d as text for where it is read.
func show(w io.Writer, d *doc.Document, l doc.Level) error {
	look := lookOf(w)
	return writeText(w, doc.Text(d, l, doc.Look{Width: look.Width, Color: look.Color}))
}

func formatNames() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// fullReport is the file of a run's folder that people are sent to.
func fullReport() string {
	all := formats()
	return all[slices.IndexFunc(all, func(f format) bool { return f.file != "" })].file
}

func writeVerdict(w io.Writer, r reports.Run) error {
	doc, err := r.Judgement.Marshal()
	if err != nil {
		return fmt.Errorf("encode verdict: %w", err)
	}
	if _, err = w.Write(reports.HarmlessJSON(doc)); err != nil {
		return fmt.Errorf("write verdict: %w", err)
	}
	return nil
}

// placed adds to how a report of r looks where it is read: folder is the run's, as one would type it; "" = the report lies in it.
func placed(look reports.Options, folder string, r reports.Run) reports.Options {
	look.Folder, look.Report = folder, filepath.Join(folder, fullReport())
	look.Reproduce = reports.Again(r, filepath.Join(folder, experimentFile))
	return look
}

// writeReports writes what is derived from the verdict into the run's folder. A report that cannot be written is said, and changes
// nothing: the verdict is in verdict.json and in the exit status, and `lockdrill judge` makes the reports anew.
func writeReports(stderr io.Writer, dir string, r reports.Run) {
	var failed []string
	for _, f := range formats() {
		if f.file == "" {
			continue
		}
		var b bytes.Buffer
		err := f.write(&b, r, placed(reports.Options{}, "", r))
		if err == nil {
			err = writeAtomically(filepath.Join(dir, f.file), b.Bytes())
		}
		if err != nil {
			fmt.Fprintf(stderr, "lockdrill: %v\n", err)
			failed = append(failed, f.file)
		}
	}
	if len(failed) > 0 {
		fmt.Fprintf(stderr, "lockdrill: %s not written; the verdict stands, and lockdrill judge %s writes them anew\n", strings.Join(failed, ", "), fromHere(dir))
	}
}
