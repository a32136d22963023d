package main

import (
	"slices"
	"strings"
)

// successors are of the command lines that went: what does the same now. A second word may stand anywhere behind the first.
var successors = []struct{ was, now string }{
	{"version", "--version"},
	{"schema", "validate --schema"},
	{"report", "judge DIR"},
	{"sweep", "rehearse FILE --sweep rate=5/s..500/s, and in real time lockdrill run FILE --sweep rate=5/s..500/s"},
	{"worker-check", "run worker-check -- COMMAND"},
	{"selftest --live", "selftest (with real processes: make selftest-live in a checkout)"},
	{"gameday note", "judge DIR, once the note stands in notes.md of that folder"},
	{"gameday", "run FILE"},
	{"judge --pool", "history --pool"},
	{"export prometheus-rules", "export alerts --recording"},
	{"export grafana-dashboard", "export dashboard"},
	{"export metrics-mapping", "export mapping"},
	{"explain locks", "plan --verbose FILE"},
	{"explain sums", "tune --profile NAME"},
}

// moved refuses a command line of an earlier lockdrill with the name of what does the same now, for as long as the version begins with 0.
func moved(args []string) error {
	if i := slices.Index(args, "--"); i >= 0 { // what follows is a worker's
		args = args[:i]
	}
	if len(args) == 0 {
		return nil
	}
	for _, s := range successors {
		if first, second, two := strings.Cut(s.was, " "); args[0] == first && (!two || slices.Contains(args, second)) {
			return usagef("lockdrill %s: this has another name now: lockdrill %s", s.was, s.now)
		}
	}
	for i, arg := range args { // -o was the form of the result, and names its file now
		for _, form := range []string{string(outputJSON), string(outputText), string(outputMD)} {
			after := i > 0 && arg == form && (args[i-1] == "-o" || args[i-1] == "--output")
			if after || arg == "-o"+form || arg == "-o="+form || arg == "--output="+form {
				return usagef("-o %s: this has another name now: -f %[1]s; -o names a file", form)
			}
		}
	}
	return nil
}
