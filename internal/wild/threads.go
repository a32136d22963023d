package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// thread is a file of threads/: an experiment that shows what a thread tells of one version of a library, and how another one fares.
type thread struct {
	name, link, shows string
	red               string // the measure that fails; or a word of counted
	at                string // version that is red
	green, other      string // version that keeps the limit, and its worker, or the fault that it has not; empty: there is none here
	store             string // what lockdrill does not start itself
	text              string // of the file
}

// reproduced is what the runs of a thread's file gave.
type reproduced struct {
	Red   string `json:"red"` // verdict of the measure at the version of the thread, and why
	Green string `json:"green,omitempty"`
}

func readThreads() (all []thread, err error) {
	files, err := filepath.Glob("threads/[^.]*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		t := thread{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), text: string(text)}
		for line := range strings.Lines(t.text) {
			key, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
			if !strings.HasPrefix(line, "# ") || !found {
				break
			}
			switch key {
			case "thread":
				t.link = value
			case "shows":
				t.shows = value
			case "red":
				t.red = value
			case "at":
				t.at = value
			case "store":
				t.store = value
			case "green":
				t.green, t.other, _ = strings.Cut(value, " | ")
			}
		}
		if t.link == "" || t.shows == "" || t.red == "" || t.at == "" {
			return nil, fmt.Errorf("%s: thread, shows, red or at is missing at its top", file)
		}
		all = append(all, t)
	}
	return all, nil
}

var workerLine = regexp.MustCompile(`(?m)^  worker: \[.*\]$`)

// reproduce runs the thread's file, and the same with the other version, or without one fault.
func (t thread) reproduce() (r reproduced, err error) {
	other := workerLine.ReplaceAllString(t.text, "  worker: ["+t.other+"]")
	if fault, less := strings.CutPrefix(t.other, "without "); less {
		other = regexp.MustCompile(`(?m)^  - {id: `+fault+`,.*\n`).ReplaceAllString(t.text, "")
	}
	if r.Red, err = t.ask(t.text); err == nil && t.green != "" {
		r.Green, err = t.ask(other)
	}
	return r, err
}

// ask gives the verdict of the thread's measure, and why. A run that a late machine has spoiled is done again.
func (t thread) ask(text string) (string, error) {
	for try := 1; ; try++ {
		dir, err := os.MkdirTemp(out, "thread-"+t.name+"-")
		if err != nil {
			return "", err
		}
		file := filepath.Join("threads", "."+filepath.Base(dir)+".yaml") // beside the thread's: its paths are relative
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return "", err
		}
		ask := command("wild-"+t.name, dir, file, text)
		end, err := stand(library{store: t.store}, ask)
		if err != nil {
			return "", err
		}
		said, _ := ask.CombinedOutput()
		end()
		_ = os.Remove(file)
		raw, err := os.ReadFile(filepath.Join(dir, "run", "verdict.json"))
		if err != nil {
			return "", fmt.Errorf("%s: no verdict: %s", t.name, last(string(said)))
		}
		if verdict, err := t.counted(filepath.Join(dir, "run")); verdict != "" || err != nil {
			return verdict, err
		}
		var v struct {
			SLOs []struct {
				Measure, Verdict, Why string
				Lacks                 []lack
			}
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return "", err
		}
		for _, s := range v.SLOs {
			if strings.TrimSuffix(s.Measure, ".max") == t.red {
				if blind(s.Lacks) && try < 5 {
					break
				}
				return s.Verdict + ": " + s.Why, nil
			}
		}
		if try == 5 {
			return "", fmt.Errorf("%s: no row %s", t.name, t.red)
		}
	}
}

// counted is the verdict of what is no measure of lockdrill, or none that fails, "" for the others.
func (t thread) counted(dir string) (string, error) {
	limit, gap := strings.CutPrefix(t.red, "no tick for ")
	f, _, err := measure(dir, drill{})
	if err != nil {
		return "", err
	}
	switch t.red {
	case "jobs done twice": // of a queue whose locks nobody claims
		return fmt.Sprintf("%s: %d of %d jobs were finished a second time", passFail(f.Twice == 0 && f.Jobs > 0), f.Twice, f.Jobs), nil
	case "jobs not done": // of those that the struck worker had begun
		if len(f.Again)+f.Left == 0 {
			return "", fmt.Errorf("%s: the struck worker had no job", t.name)
		}
		return fmt.Sprintf("%s: %d of %d jobs that the killed worker had begun were not done in the run", passFail(f.Left == 0), f.Left, len(f.Again)+f.Left), nil
	case "replicas ended": // by themselves
		return fmt.Sprintf("%s: replicas that ended by themselves: %d", passFail(f.Ended == 0), f.Ended), nil
	case "grants without a key":
		return fmt.Sprintf("%s: granted without a key that was the oldest: %d times", passFail(f.Phantoms == 0), f.Phantoms), nil
	}
	if !gap {
		return "", nil
	}
	d, err := time.ParseDuration(limit)
	if err != nil || f.Gap == nil {
		return "", fmt.Errorf("%s: red: %q, ticks %v", t.name, t.red, f.Gap)
	}
	return fmt.Sprintf("%s: no tick for %s", passFail(*f.Gap.Hi <= d.Seconds()), ranges([]span{*f.Gap})), nil
}

func passFail(ok bool) string {
	if ok {
		return "pass"
	}
	return "fail"
}

func (r reproduced) String() string {
	return fmt.Sprintf("red: %s\n    green: %s", r.Red, r.Green)
}

// ok says that the thread's version fails, and the other one, if there is one, does not.
func (t thread) ok(r reproduced) bool {
	return strings.HasPrefix(r.Red, "fail") && (t.green == "" || strings.HasPrefix(r.Green, "pass"))
}

func (t table) threads(of func(thread) bool) string {
	all, err := readThreads()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, x := range all {
		r, known := t.Threads[x.name]
		if !known || !x.ok(r) || !of(x) {
			continue
		}
		green := "No other version is here"
		if x.green != "" {
			green = "Passes at " + x.green
		}
		fmt.Fprintf(&b, "* [%s](%s): %s. Fails at %s: %s. %s.\n", x.name, x.link, x.shows, x.at, strings.TrimSuffix(strings.TrimPrefix(r.Red, "fail: "), "."), green)
	}
	return b.String()
}
