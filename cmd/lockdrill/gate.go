package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/otlp"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/prometheus/client_golang/prometheus/push"
	"github.com/spf13/pflag"
)

// gateFlags are where a command leaves its end for those who read files and not exit statuses.
type gateFlags struct {
	result      resultFile
	junit       string
	metrics     string
	pushgateway string
	job         string
	otlp        string
	summary     string
	upload      uploadFlags
}

// defaultJob is the job label of pushed metrics where none is given.
const defaultJob = "lockdrill"

func (g *gateFlags) flags(flags *pflag.FlagSet) {
	g.result.flag(flags)
	flags.StringVar(&g.junit, "junit", "", "JUnit file of all drills of the command, written in every end, also refused and error")
	flags.StringVar(&g.metrics, "metrics-file", "", "metrics for a textfile collector (name it *.prom); the last pass in it outlives a failed run")
	flags.StringVar(&g.pushgateway, "pushgateway", "", "URL of a Pushgateway that gets the metrics")
	flags.StringVar(&g.job, "job", defaultJob, "job label at the Pushgateway")
	flags.StringVar(&g.otlp, "otlp", "", "URL of an OpenTelemetry collector that gets one trace of each run (default $OTEL_EXPORTER_OTLP_ENDPOINT)")
	flags.StringVar(&g.summary, "summary-configmap", "", "ConfigMap in the namespace of the pods that gets verdict, times and closing summary of the drill")
	g.upload.flags(flags)
}

// gate gathers how the drills of a command ended. Whatever it cannot write it says; it never changes a verdict or an exit status.
type gate struct {
	gateFlags
	stderr io.Writer
	suites reports.Suites
	codes  []int

	leave func(data map[string]string) error // a summary, where one is wanted
	mark  func(data map[string]string) error // beside it: of a run that was refused
}

// openGate makes sure, before anything is run, that the files can be written, and writes "error" into them: of a command that is
// killed nobody reads an earlier pass.
func openGate(stderr io.Writer, f gateFlags) (*gate, error) {
	nowhere := func(map[string]string) error { return nil }
	g := &gate{gateFlags: f, stderr: stderr, leave: nowhere, mark: nowhere}
	if err := f.apart(); err != nil {
		return nil, err
	}
	if err := g.result.claim(); err != nil {
		return nil, err
	}
	if err := g.upload.check(); err != nil {
		return nil, err
	}
	if err := f.pushes(); err != nil {
		return nil, err
	}
	if f.otlp != "" {
		if err := otlp.Check(f.otlp); err != nil {
			return nil, usagef("--otlp %s: %w", doc.Clip(experiments.Redact(f.otlp), 300), err)
		}
	}
	if g.junit != "" {
		var killed reports.Suites
		killed.AddUnjudged("lockdrill", verdict.ExitName(verdict.ExitError), "the command has not come to its end: it is still at work, or it was killed")
		if err := writeSuites(g.junit, killed); err != nil {
			dropFile(g.junit)
			return nil, usagef("--junit %w", err)
		}
	}
	if g.metrics != "" {
		_, err := afterFile(g.metrics, nil, "")
		if err == nil {
			err = canWrite(g.metrics)
		}
		if err != nil {
			return nil, usagef("--metrics-file %s: %w", g.metrics, err)
		}
	}
	return g, nil
}

// pushes refuses a Pushgateway that cannot be one before hours are spent, and a job without a Pushgateway that gets it.
func (f *gateFlags) pushes() error {
	u, err := url.Parse(f.pushgateway)
	switch {
	case f.pushgateway == "" && f.job != defaultJob:
		return usagef("--job goes with --pushgateway: it is the label of the metrics there")
	case f.pushgateway != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"):
		return usagef("--pushgateway %s: want the URL of a Pushgateway, such as http://pushgateway:9091", doc.Clip(experiments.Redact(f.pushgateway), 300))
	}
	return nil
}

// apart refuses one file for two things: a gate would read the other's.
func (f *gateFlags) apart() error {
	seen := map[string]string{}
	for _, of := range [][2]string{{"--result-file", string(f.result)}, {"--junit", f.junit}, {"--metrics-file", f.metrics}} {
		path, err := filepath.Abs(of[1])
		if of[1] == "" || err != nil {
			continue
		}
		if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(folder, filepath.Base(path))
		}
		if other := seen[path]; other != "" && replaceable(path) { // both may go to /dev/null
			return usagef("%s and %s name the same file, %s: give each its own", other, of[0], of[1])
		}
		seen[path] = of[0]
	}
	return nil
}

// judged takes a drill that has a verdict; dir is its folder.
func (g *gate) judged(r reports.Run, dir string) {
	g.codes = append(g.codes, r.Judgement.ExitCode)
	g.suites.Add(r)
	g.count(r.Judgement.Run.Experiment, reports.MetricsOf(r))
	g.leaveVerdict(r)
	if err := g.upload.bring(g.stderr, r.Judgement.Run.ID, dir); err != nil {
		g.say("--upload", err)
	}
	g.trace(r)
	var b bytes.Buffer
	if err := reports.Markdown(&b, r, placed(reports.Options{}, fromHere(dir), r)); err != nil {
		g.say("step summary", err)
		return
	}
	g.summarize(b.String())
}

// unjudged takes a drill, or the argument that was to be one, that ended without a verdict.
func (g *gate) unjudged(name string, err error) {
	code := codeOf(err)
	g.codes = append(g.codes, code)
	g.suites.AddUnjudged(name, verdict.ExitName(code), err.Error())
	if code != verdict.ExitUsage { // of a bad file there is no experiment
		g.count(name, reports.MetricsUnjudged(name, verdict.ExitName(code), time.Now()))
	}
	g.leaveUnjudged(name, code, err.Error(), time.Now())
	var b bytes.Buffer
	if err := reports.MarkdownUnjudged(&b, name, verdict.ExitName(code), err.Error()); err == nil {
		g.summarize(b.String())
	}
}

// close writes what is of the command as a whole, which ended with err.
func (g *gate) close(err error) {
	code := verdict.WorstExit(g.codes...)
	if len(g.codes) == 0 {
		code = codeOf(err)
		g.suites.AddUnjudged("lockdrill", verdict.ExitName(code), fmt.Sprint(err))
	}
	g.result.write(g.stderr, code)
	if g.junit != "" {
		if err := writeSuites(g.junit, g.suites); err != nil {
			g.say("--junit", err)
		}
	}
}

func (g *gate) say(what string, err error) {
	fmt.Fprintf(g.stderr, "lockdrill: %s: %s; the verdict stands\n", what, reports.Harmless(err.Error()))
}

func writeSuites(path string, s reports.Suites) error {
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		return err
	}
	return writeAtomically(path, b.Bytes())
}

// pushWithin bounds a push: nobody waits for a gateway that hangs.
const pushWithin = 10 * time.Second

// count writes and pushes the metrics of one experiment.
func (g *gate) count(experiment string, m reports.Metrics) {
	if g.pushgateway != "" {
		// POST, and not PUT: what this run does not have, its last pass, stays as it was.
		err := push.New(g.pushgateway, g.job).Grouping("experiment", experiment).Gatherer(m.Without("experiment")).
			Client(&http.Client{Timeout: pushWithin}).AddContext(context.Background())
		if err != nil {
			g.say("--pushgateway", errors.New(doc.Clip(experiments.Redact(err.Error()), 300))) // cut first, a password would lose the @ that tells it
		}
	}
	if g.metrics == "" {
		return
	}
	m, err := afterFile(g.metrics, m, experiment)
	if err != nil {
		g.say("--metrics-file "+g.metrics, err)
		return
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		g.say("--metrics-file", err)
		return
	}
	if err := writeAtomically(g.metrics, b.Bytes()); err != nil {
		g.say("--metrics-file", err)
	}
}

// trace sends the run as one trace, where somebody wants it.
func (g *gate) trace(r reports.Run) {
	if !otlp.Wanted(g.otlp) {
		return
	}
	began, err := time.Parse(time.RFC3339Nano, r.Judgement.Run.Started)
	if err == nil {
		var id string
		if id, err = otlp.Send(context.Background(), g.otlp, version(), began, reports.TraceOf(r)); err == nil {
			fmt.Fprintf(g.stderr, "lockdrill: --otlp: trace %s was sent\n", id)
			return
		}
	}
	g.say("--otlp", errors.New(doc.Clip(experiments.Redact(err.Error()), 300)))
}

// afterFile is m after what the file holds from earlier.
func afterFile(path string, m reports.Metrics, experiment string) (reports.Metrics, error) {
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	return m.After(f, experiment)
}

// resultFile is a file with the verdict's word and nothing else, for Tekton's results and Argo's output parameters: those take the file
// as it is, newline and all, and at most 4096 bytes. "" = not wanted.
type resultFile string

func (r *resultFile) flag(flags *pflag.FlagSet) {
	flags.StringVar((*string)(r), "result-file", "", "file for the verdict's word (pass, slo-failed, ...), written in every end, also refused and error")
}

// claim writes "error", which stays if the process is killed.
func (r resultFile) claim() error {
	if r == "" {
		return nil
	}
	if err := writeOver(string(r), []byte(verdict.ExitName(verdict.ExitError))); err != nil {
		dropFile(string(r))
		return usagef("--result-file %w", err)
	}
	return nil
}

func (r resultFile) write(stderr io.Writer, code int) {
	if r == "" {
		return
	}
	if err := writeOver(string(r), []byte(verdict.ExitName(code))); err != nil {
		fmt.Fprintf(stderr, "lockdrill: --result-file: %v; the verdict stands\n", err)
	}
}

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

// What a run leaves in a ConfigMap of its namespace, for people who look there first and for whoever watches scheduled drills.

// maxClosing bounds the closing summary in a ConfigMap, which holds 1 MiB in all.
const maxClosing = 64 << 10

// openSummary says where the summary of a drill goes, if it is wanted. It does not dial.
func (g *gate) openSummary(e *experiments.Experiment, c drill.Cluster) error {
	if g.summary == "" {
		return nil
	}
	to, err := drill.OpenSummary(e, c, g.summary)
	if err != nil {
		return err
	}
	g.leave, g.mark = to.Write, to.Mark
	return nil
}

// write leaves a summary where one is wanted.
func (g *gate) write(data map[string]string) {
	if err := g.leave(data); err != nil {
		g.say("--summary-configmap", err)
	}
}

// leaveVerdict writes the summary of a judged drill.
func (g *gate) leaveVerdict(r reports.Run) {
	var b strings.Builder
	if err := reports.Terminal(&b, r.Judgement, reports.Options{Verbose: true}); err != nil {
		g.say("--summary-configmap", err)
		return
	}
	j := r.Judgement
	g.write(map[string]string{
		"experiment": j.Run.Experiment, "run": j.Run.ID, "verdict": j.Verdict, "exitCode": strconv.Itoa(j.ExitCode),
		"started": j.Run.Started, "ended": j.Run.Ended, "summary": cutText(b.String(), maxClosing),
	})
}

// leaveUnjudged writes that a drill has no verdict. A run that was refused leaves what the last one wrote, and says beside it that it was
// refused.
func (g *gate) leaveUnjudged(name string, code int, why string, now time.Time) {
	switch code {
	case verdict.ExitUsage:
		return
	case verdict.ExitRefused:
		if err := g.mark(map[string]string{
			"refused": now.UTC().Format(time.RFC3339), "refusedWhy": cutText(reports.Harmless(experiments.Redact(why)), maxClosing),
		}); err != nil {
			g.say("--summary-configmap", err)
		}
		return
	}
	g.write(map[string]string{
		"experiment": name, "run": "", "verdict": verdict.ExitName(code), "exitCode": strconv.Itoa(code),
		"started": "", "ended": now.UTC().Format(time.RFC3339), "summary": cutText(reports.Harmless(experiments.Redact(why)), maxClosing),
	})
}

// cutText is the beginning of text, at most so many bytes.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}
