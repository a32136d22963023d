package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/reports"
)

// format is one form that a run can be reported in.
type format struct {
	name  string
	file  string // in the run's folder; "" = only on demand
	what  string
	write func(io.Writer, reports.Run, placed) error
}

// placed is where a report is read, which is all that it says beyond the run.
type placed struct {
	folder string // of the run, as one would type it; "" = the report lies in it
	width  int    // columns
	color  bool
}

// formats lists the formats. Those with a file are written into the run's folder in this order, the first is the one that people are sent to.
func formats() []format {
	return []format{
		{"html", "report.html", "the whole run on one page that needs no network", func(w io.Writer, r reports.Run, _ placed) error { return reports.HTML(w, r) }},
		{"md", "report.md", "a summary for a chat or a CI step", func(w io.Writer, r reports.Run, p placed) error { return reports.Markdown(w, r, p.markdown(r)) }},
		{"junit", "junit.xml", "a testcase an SLO, for CI", func(w io.Writer, r reports.Run, _ placed) error { return reports.JUnit(w, r) }},
		{"prom", "metrics.prom", "metrics in Prometheus' text format", func(w io.Writer, r reports.Run, _ placed) error { return reports.MetricsOf(r).Write(w) }},
		{"postmortem-md", "", "the skeleton of a post-mortem, measured parts filled in", func(w io.Writer, r reports.Run, p placed) error { return reports.Postmortem(w, r, p.markdown(r)) }},
		{"text", "", "the summary that run prints", func(w io.Writer, r reports.Run, p placed) error {
			return reports.Terminal(w, r.Judgement, p.terminal(r))
		}},
		{"json", "", "verdict.json", writeVerdict},
		{"csv", "", "a row a takeover trial", func(w io.Writer, r reports.Run, _ placed) error { return reports.TakeoversCSV(w, r) }},
		{"slos-csv", "", "a row an SLO", func(w io.Writer, r reports.Run, _ placed) error { return reports.SLOsCSV(w, r) }},
	}
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

func writeVerdict(w io.Writer, r reports.Run, _ placed) error {
	doc, err := r.Judgement.Marshal()
	if err != nil {
		return fmt.Errorf("encode verdict: %w", err)
	}
	if _, err = w.Write(reports.HarmlessJSON(doc)); err != nil {
		return fmt.Errorf("write verdict: %w", err)
	}
	return nil
}

// reproduce is the command that runs the drill again.
func (p placed) reproduce(r reports.Run) string {
	if !r.Judgement.Run.Live {
		return fmt.Sprintf("lockdrill rehearse %s --replay %d", filepath.Join(p.folder, experimentFile), r.Judgement.Run.Seed)
	}
	return fmt.Sprintf("lockdrill run %s --seed %d", filepath.Join(p.folder, experimentFile), r.Judgement.Run.Seed)
}

func (p placed) markdown(r reports.Run) reports.MarkdownOptions {
	return reports.MarkdownOptions{Report: filepath.Join(p.folder, fullReport()), Folder: p.folder, Reproduce: p.reproduce(r)}
}

func (p placed) terminal(r reports.Run) reports.TerminalOptions {
	o := reports.TerminalOptions{Width: p.width, Color: p.color, Folder: p.folder, Reproduce: p.reproduce(r)}
	if p.folder != "" {
		o.Report = filepath.Join(p.folder, fullReport())
	}
	return o
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
		err := f.write(&b, r, placed{})
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
