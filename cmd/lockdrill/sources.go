package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// A verdict names the bytes that it was made from. One that lies beside other bytes is named, and one of before does not stay where the
// history is refused: either could be taken for what the history shows.

// aside is the end of the name of a document that was set aside.
const aside = ".old"

// strange says how the verdict in a run's folder does not belong to what lies beside it; "" where it does, or there is none.
func strange(dir string, now verdict.Sources) string {
	path := filepath.Join(dir, verdictFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var there struct {
		Run     *verdict.RunInfo
		Sources *verdict.Sources
	}
	if err == nil {
		err = json.Unmarshal(data, &there)
	}
	switch {
	case err != nil || there.Run == nil:
		return fmt.Sprintf("%s is no verdict of lockdrill", path)
	case there.Sources == nil:
		return fmt.Sprintf("%s does not say from which history it was made", path)
	case there.Sources.History != now.History:
		return fmt.Sprintf("%s does not belong to the %s beside it: it was made from one with %s, this one has %s", path, historyFile, short(there.Sources.History), short(now.History))
	case there.Sources.Experiment != now.Experiment:
		return fmt.Sprintf("%s does not belong to the %s beside it: it was made with one with %s, this one has %s", path, experimentFile, short(there.Sources.Experiment), short(now.Experiment))
	}
	return ""
}

// short is a digest as people compare it.
func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }

// sayStrange names a verdict in a run's folder that does not belong there; does says what this command does about it.
func sayStrange(w io.Writer, dir string, now verdict.Sources, does string) {
	if what := strange(dir, now); what != "" {
		fmt.Fprintf(w, "lockdrill: %s; %s\n", what, does)
	}
}

// setAside renames what was made of an earlier judgement in a run's folder that is refused now.
func setAside(w io.Writer, dir string) {
	if !isRunFolder(dir) {
		return
	}
	names, moved := []string{verdictFile}, []string{}
	for _, f := range formats() {
		if f.file != "" {
			names = append(names, f.file)
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := os.Rename(path, path+aside); err != nil {
			fmt.Fprintf(w, "lockdrill: %s is of an earlier judgement and could not be set aside: %v\n", path, reason(err))
			continue
		}
		moved = append(moved, name+aside)
	}
	if len(moved) > 0 {
		fmt.Fprintf(w, "lockdrill: %s has no verdict now; that of an earlier judgement is kept as %s\n", fromHere(dir), strings.Join(moved, ", "))
	}
}
