package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// release is the version that is being worked on.
const release = "0.1.0-dev"

// versionDoc is the document of `--version -f json`. The schema versions are those that this binary writes.
type versionDoc struct {
	SchemaVersion  int    `json:"schemaVersion"`
	Version        string `json:"version"`
	Go             string `json:"go"`
	Platform       string `json:"platform"`
	HistorySchema  int    `json:"historySchema"`
	VerdictSchema  int    `json:"verdictSchema"`
	WorkerProtocol int    `json:"workerProtocol"`
}

// printVersion is what --version says.
func printVersion(io streams, format output) error {
	doc := versionDoc{
		SchemaVersion:  1,
		Version:        version(),
		Go:             runtime.Version(),
		Platform:       runtime.GOOS + "/" + runtime.GOARCH,
		HistorySchema:  history.SchemaVersion,
		VerdictSchema:  verdict.VerdictVersion,
		WorkerProtocol: protocol.Version,
	}
	if format == outputJSON {
		return writeJSON(io.Out, doc)
	}
	_, err := fmt.Fprintf(io.Out, "lockdrill %s (%s, %s)\nhistory schema %d, verdict schema %d, worker protocol %d\n",
		doc.Version, doc.Go, doc.Platform, doc.HistorySchema, doc.VerdictSchema, doc.WorkerProtocol)
	return err
}

// version of the tool, as written into every history's header: the release, and the commit where it is known.
func version() string {
	if rev := revision(); rev != "" {
		return release + "+" + rev
	}
	return release
}

// revision is the short commit that the binary was built from, with ".dirty" where files were changed; "" where it is not known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var rev, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	if rev == "" {
		return ""
	}
	return rev + dirty
}
