package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/drill/undo"
)

// moved refuses a command line of an earlier lockdrill with the one that does the same now, for as long as the version begins with 0.
func moved(args []string) error {
	now := slices.Clone(args)
	if len(args) > 0 && successors[args[0]] != nil {
		now = successors[args[0]](args[1:])
	}
	if now = formNow(now); slices.Equal(now, args) {
		return nil
	}
	was := "lockdrill " + strings.Join(args[:min(2, len(args))], " ")
	for i, arg := range now {
		now[i] = undo.Quote(arg)
	}
	return usagef("%s ...: this has another name now: lockdrill %s", was, strings.Join(now, " "))
}

// successors are of the commands that go: the command line of now, given the arguments. One that still is a command has its line unless an
// argument says otherwise.
var successors = map[string]func(args []string) []string{
	"version": func(args []string) []string { return append([]string{"--version"}, args...) },
	"schema": func(args []string) []string {
		all := renamed(args, map[string]string{"--write": "-o"})
		kind := "--schema"
		for i, arg := range all {
			if arg == "experiment" || arg == "schedule" || arg == "gameday" {
				kind, all = "--schema="+arg, slices.Delete(all, i, i+1)
				break
			}
		}
		return append([]string{"validate", kind}, all...)
	},
	"report": func(args []string) []string {
		all := renamed(args, map[string]string{"--baseline": "--against"})
		for i := range all { // its text was all that was measured
			if i > 0 && (all[i-1] == "-f" || all[i-1] == "--format") && all[i] == "text" {
				all = append(all, "--verbose")
			}
		}
		return append([]string{"judge"}, all...)
	},
	"sweep":        sweptNow,
	"worker-check": checkedNow,
	"gameday": func(args []string) []string {
		if len(args) > 2 && args[0] == "note" {
			return []string{"judge", args[1]}
		}
		return append([]string{"run"}, slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--from-sheet" })...)
	},
	"judge": func(args []string) []string {
		if i := slices.Index(args, "--pool"); i >= 0 {
			return append([]string{"history"}, args...)
		}
		return append([]string{"judge"}, args...)
	},
	"export": func(args []string) []string {
		now := map[string][]string{"prometheus-rules": {"alerts", "--recording"}, "grafana-dashboard": {"dashboard"}, "metrics-mapping": {"mapping"}}
		if len(args) > 0 && now[args[0]] != nil {
			return slices.Concat([]string{"export"}, now[args[0]], args[1:])
		}
		return append([]string{"export"}, args...)
	},
	"explain": func(args []string) []string {
		switch {
		case len(args) > 0 && args[0] == "locks":
			return append([]string{"plan", "--verbose"}, args[1:]...)
		case len(args) > 0 && args[0] == "sums":
			return append([]string{"tune"}, renamed(args[1:], map[string]string{"--work-p99": "--p99", "--slo": "--takeover"})...)
		}
		return append([]string{"explain"}, args...)
	},
}

// renamed gives flags their names of now.
func renamed(args []string, names map[string]string) []string {
	all := slices.Clone(args)
	for i, arg := range all {
		name, value, given := strings.Cut(arg, "=")
		if now := names[name]; now != "" && given {
			all[i] = now + "=" + value
		} else if now != "" {
			all[i] = now
		}
	}
	return all
}

// sweptNow is a sweep as a flag: of run where it was live, else of rehearse.
func sweptNow(args []string) []string {
	cmd, terms, rest := "rehearse", []string{}, []string{}
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		next := func() string {
			if !given && i+1 < len(args) {
				i++
				return args[i]
			}
			return value
		}
		switch name {
		case "--live":
			cmd = "run"
		case "--rate", "--replicas", "--hold", "--lock", "--steps", "--finer":
			terms = append(terms, name[2:]+"="+next())
		case "--page":
			rest = append(rest, "-f", "html", "-o", next())
		default:
			rest = append(rest, args[i])
		}
	}
	return append([]string{cmd, "--sweep", strings.Join(terms, ",")}, rest...)
}

// checkedNow is the drill of a worker. It has no flags but the form of its result.
func checkedNow(args []string) []string {
	old := pflag.NewFlagSet("worker-check", pflag.ContinueOnError)
	old.SetOutput(io.Discard)
	old.SetInterspersed(false)
	old.ParseErrorsAllowlist.UnknownFlags = true
	form := old.StringP("output", "o", "", "")
	for _, name := range []string{"ttl", "ready", "only"} {
		old.String(name, "", "")
	}
	now := []string{"run", "worker-check"}
	if err := old.Parse(args); err == nil && *form == string(outputJSON) {
		now = append(now, "-f", *form)
	}
	worker := old.Args()
	if len(worker) == 0 {
		worker = []string{"COMMAND"}
	}
	return slices.Concat(now, []string{"--"}, worker)
}

// formNow gives the form of a result its flag of now: -o names a file.
func formNow(args []string) []string {
	all := slices.Clone(args)
	for i, arg := range all {
		if arg == "--" {
			break
		}
		for _, form := range []output{outputJSON, outputText, outputMD} {
			switch {
			case i > 0 && (all[i-1] == "-o" || all[i-1] == "--output") && arg == string(form):
				all[i-1] = "-f"
			case arg == "-o"+string(form), arg == "-o="+string(form), arg == "--output="+string(form):
				all[i] = "-f=" + string(form)
			}
		}
	}
	return all
}
