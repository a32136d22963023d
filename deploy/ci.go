package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/lockdrill/lockdrill/experiments"
)

// CIOptions is what a step of a CI system is made for.
type CIOptions struct {
	Experiment         string // a shipped scenario, or a file's path from the root of the checkout
	File               []byte // the experiment where it is a file
	InconclusivePasses bool   // status 11 lets through
	Redis              experiments.RedisMode
	Schedule           string // five fields of cron; "" = the system's own example, or none
	Approve            string // the protected environment (Jenkins: users or groups) that lets the plan's very hash run; "" = nobody is asked
}

// approving are the systems that can ask a person between two jobs.
var approving = []string{"github", "gitlab", "jenkins"}

// cronOfAll is what the three of them take: GitHub has no @daily, Jenkins has no names of days.
var cronOfAll = regexp.MustCompile(`^[0-9*,/-]+( [0-9*,/-]+){4}$`)

// check refuses what a system does not have.
func (o *CIOptions) check(system string) error {
	if o.Schedule == "" && o.Approve == "" {
		return nil
	}
	if !slices.Contains(approving, system) {
		return fmt.Errorf("--schedule and --approve are for %s; %s has its own way to start and to ask", strings.Join(approving, ", "), system)
	}
	if o.Schedule != "" {
		if err := CheckCron(o.Schedule); err != nil {
			return err
		}
		if !cronOfAll.MatchString(o.Schedule) {
			return fmt.Errorf("--schedule %q: CI systems agree on five fields of numbers only, such as \"17 5 * * 1\"", o.Schedule)
		}
	}
	if o.Approve != "" && !approver.MatchString(o.Approve) {
		return fmt.Errorf("--approve %q: want the name of an environment (Jenkins: of users or groups): letters, digits, and _ - . / ,", o.Approve)
	}
	return nil
}

var approver = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./,-]*$`)

// ciTemplates are the templates by system.
func ciTemplates() map[string]string {
	return map[string]string{
		"github": "ci/github.yaml", "gitlab": "ci/gitlab.yaml", "jenkins": "ci/jenkins.groovy", "tekton": "ci/tekton.yaml",
		"argo-rollouts": "ci/argo-rollouts.yaml",
	}
}

// CISystems are the systems that CI knows, in alphabetical order.
func CISystems() []string { return slices.Sorted(maps.Keys(ciTemplates())) }

// CI writes a step for one of CISystems: it runs the drill, ends with lockdrill's status, keeps the report whatever that is, and
// tries again only after status 1.
func CI(system string, o CIOptions) ([]byte, error) {
	name, ok := ciTemplates()[system]
	if !ok {
		return nil, fmt.Errorf("no CI system %q", system)
	}
	if strings.ContainsFunc(o.Experiment, func(r rune) bool { return r < ' ' || strings.ContainsRune("$\"'\\`{}", r) }) {
		return nil, errors.New(`the path of the experiment has one of $ " ' \ { } or a back-tick in it, which some CI systems replace: rename it`)
	}
	if err := o.check(system); err != nil {
		return nil, err
	}
	return o.fill(name, system == "tekton", false)
}

// fill fills in a template. result: the step keeps the verdict's word in $DRILL_RESULT.
func (o *CIOptions) fill(name string, result, reusable bool) ([]byte, error) {
	fields := struct {
		Reusable                      bool
		Schedule, Approve, PlanStep   string
		Experiment, Flags, ResultFlag string
		File, Redis, Spawns           bool // Redis: redis-server is used where there is one; Spawns: nothing else will do
		FileText, Get, Gate, ImageIs  string
	}{
		Reusable: reusable, Schedule: o.Schedule, Approve: o.Approve, Experiment: o.Experiment, File: o.File != nil, FileText: string(o.File),
		Redis: o.Redis != experiments.RedisEmbedded, Spawns: o.Redis == experiments.RedisSpawn,
		ImageIs: "lockdrill's image of the variant -debug, which has a shell; the locks live in a store inside lockdrill",
	}
	if fields.Spawns {
		fields.ImageIs = "an image with lockdrill, a shell and redis-server, which this drill starts"
	}
	if o.InconclusivePasses {
		fields.Flags = "--on-inconclusive=pass"
	}
	if reusable {
		fields.Flags = "$[[ inputs.flags ]]"
	}
	if result {
		fields.ResultFlag = ` --result-file "$DRILL_RESULT"`
	}
	for _, part := range []struct {
		into *string
		name string
	}{{&fields.Get, "ci/get.sh"}, {&fields.Gate, "ci/gate.sh"}, {&fields.PlanStep, "ci/plan.sh"}} {
		text, err := execute(fields, part.name)
		if err != nil {
			return nil, err
		}
		*part.into = string(text)
	}
	return execute(fields, name)
}

// execute fills in the first of the named files; the others hold parts of it.
func execute(fields any, names ...string) ([]byte, error) {
	own := template.FuncMap{"quote": quote, "groovy": groovy, "indent": indent, "join": strings.Join, "seconds": seconds}
	t, err := template.New("").Delims("<<", ">>").Funcs(own).ParseFS(files, names...)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, path.Base(names[0]), fields); err != nil {
		return nil, fmt.Errorf("fill in template: %w", err)
	}
	return b.Bytes(), nil
}

// quote gives a string, or strings, as JSON, which YAML reads as the same.
func quote(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

func groovy(s string) string { return "'" + s + "'" } // CI refuses quotes and backslashes

// indent moves each line to the right, and leaves empty ones empty.
func indent(n int, text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		if strings.TrimSpace(line) != "" {
			b.WriteString(strings.Repeat(" ", n))
		}
		b.WriteString(line)
	}
	return b.String()
}
