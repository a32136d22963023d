package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lockdrill/lockdrill/experiments"
)

// What a step of GitHub Actions gives and takes: docs.github.com, "Workflow commands" and "Store information in variables".

// maxSummary is how many bytes one step may leave in its summary; of more GitHub shows nothing at all.
const maxSummary = 1 << 20

const summaryCut = "\n\n(cut here: a step's summary holds 1 MiB; the rest is in the report)\n"

// summarize appends to the step's summary, where there is one.
func (g *gate) summarize(text string) {
	path := os.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return
	}
	if err := appendSummary(path, text); err != nil {
		g.say("GITHUB_STEP_SUMMARY", err)
	}
}

func appendSummary(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o644) // a pipe that nobody reads is an error
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	room := maxSummary - info.Size()
	if room < int64(len(summaryCut)) {
		return fmt.Errorf("%s: full: a step's summary holds 1 MiB", path)
	}
	text += "\n"
	if int64(len(text)) > room {
		text = strings.ToValidUTF8(text[:room-int64(len(summaryCut))], "") + summaryCut
	}
	_, err = f.WriteString(text)
	return err
}

// annotate shows the problems of an experiment's file beside its lines, where a GitHub Action runs this. It goes to standard error, which
// is read as well: standard output may be a document.
func annotate(stderr io.Writer, err error) {
	var problems experiments.Problems
	if os.Getenv("GITHUB_ACTIONS") != "true" || !errors.As(err, &problems) {
		return
	}
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, p := range problems {
		fmt.Fprintf(stderr, "::error file=%s,line=%d,col=%d::%s\n", property.Replace(inWorkspace(p.File)), max(1, p.Line), max(1, p.Column), data.Replace(p.Message))
	}
}

// inWorkspace is the path of a file in the repository that the workflow has checked out; of any other, the path as it is.
func inWorkspace(file string) string {
	abs, err := filepath.Abs(file)
	root := os.Getenv("GITHUB_WORKSPACE")
	if err != nil || root == "" {
		return file
	}
	if rel, err := filepath.Rel(root, abs); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return file
}
