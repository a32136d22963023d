package deploy_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// fakePlanner prints a plan, ends as the file planned says, and notes what else is called.
const fakePlanner = `#!/bin/sh
if [ "$1" = --version ]; then exit 0; fi
if [ "$1" = plan ]; then
  cat "$FAKE/printed"
  exit "$(cat "$FAKE/planned")"
fi
echo "$@" >> "$FAKE/calls"
`

// asked run both jobs of a step that was exported with --approve, as if somebody had approved between them: what the first one hands
// over comes to the second by the system's own way.
var asked = map[string]func(t *testing.T, j *job, text []byte) int{
	"github": func(t *testing.T, j *job, text []byte) int {
		output := filepath.Join(j.fake, "github-output")
		testkit.Write(t, output, nil)
		fresh := slices.Clone(j.env) // the second job has a runner of its own
		j.env = append(j.env, "GITHUB_OUTPUT="+output)
		plan := bytes.ReplaceAll(text, []byte("\n  lockdrill:\n"), []byte("\n  second:\n"))
		plan = bytes.Replace(plan, []byte("\n  plan: "), []byte("\n  lockdrill: "), 1)
		if status := onGitHub(t, j, plan); status != 0 {
			return status
		}
		var hash string
		for _, line := range j.lines(t, "github-output") {
			hash = strings.TrimSpace(strings.TrimPrefix(line, "hash="))
		}
		j.env = fresh
		return onGitHub(t, j, bytes.Replace(text, []byte("${{ needs.plan.outputs.hash }}"), fmt.Appendf(nil, "%q", hash), 1))
	},
	"gitlab": func(t *testing.T, j *job, text []byte) int {
		var doc map[string]struct {
			Variables    map[string]string
			BeforeScript []string `yaml:"before_script"`
			Script       []string
			Artifacts    struct{ Reports struct{ Dotenv string } }
		}
		unmarshal(t, text, &doc)
		first := doc["lockdrill-plan"]
		for k, v := range first.Variables {
			j.env = append(j.env, k+"="+strings.ReplaceAll(v, "$CI_PROJECT_DIR", j.dir))
		}
		if status := j.script(t, "set -eo pipefail\n"+strings.Join(append(first.BeforeScript, first.Script...), "\n"), "bash"); status != 0 {
			return status
		}
		j.env = append(j.env, strings.TrimSpace(string(testkit.Read(t, filepath.Join(j.dir, first.Artifacts.Reports.Dotenv)))))
		return onGitLab(t, j, text)
	},
	"jenkins": onJenkins,
}

// What was approved is what is run: the hash of the first job reaches the run of the second. A plan that would be refused, gives no answer
// or prints no hash ends the first, and nothing runs.
func TestCIRunsTheHashThatWasApproved(t *testing.T) {
	const printed = "what it does\n\nhash  sha256:0a1b\n"
	for system, act := range asked {
		for _, c := range []struct {
			name, printed, planned string
			want                   int
			runs                   bool
		}{
			{"approved", printed, "0", 0, true},
			{"a guard refuses", printed, "13", 13, false},
			{"no answer is possible", printed, "11", 11, false},
			{"no hash", "what it does\n", "0", 1, false},
		} {
			t.Run(system+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				text, err := deploy.CI(system, deploy.CIOptions{Experiment: "first-drill", Approve: "production", Schedule: "17 5 * * 1"})
				testkit.Must(t, err)
				j := newJob(t)
				executable(t, filepath.Join(j.fake, "lockdrill"), fakePlanner)
				testkit.Write(t, filepath.Join(j.fake, "printed"), []byte(c.printed))
				testkit.Write(t, filepath.Join(j.fake, "planned"), []byte(c.planned))
				if got := act(t, j, text); got != c.want {
					t.Errorf("the jobs end with %d, want %d", got, c.want)
				}
				calls := j.lines(t, "calls")
				if c.runs != (len(calls) == 1) || c.runs && !slices.Contains(strings.Fields(calls[0]), "sha256:0a1b") {
					t.Errorf("called was %q", calls)
				}
			})
		}
	}
}

// A run that nobody approved does not begin: an empty hash would let anything run.
func TestCIRunsNothingWithoutAHash(t *testing.T) {
	text, err := deploy.CI("gitlab", deploy.CIOptions{Experiment: "first-drill", Approve: "production"})
	testkit.Must(t, err)
	j := newJob(t, "0")
	if got := onGitLab(t, j, text); got != 13 || len(j.lines(t, "calls")) != 0 {
		t.Errorf("status %d, called was %q", got, j.lines(t, "calls"))
	}
}

// Schedules that one of the systems would not take, approvers that are none, and systems that ask nobody are refused.
func TestCIRefusesSchedulesAndApprovers(t *testing.T) {
	for _, c := range []struct {
		system string
		o      deploy.CIOptions
	}{
		{"github", deploy.CIOptions{Schedule: "@daily"}}, {"jenkins", deploy.CIOptions{Schedule: "0 3 * * mon"}}, {"gitlab", deploy.CIOptions{Schedule: "61 3 * * 1"}},
		{"gitlab", deploy.CIOptions{Approve: "a'b"}}, {"github", deploy.CIOptions{Approve: "${{ x }}"}},
		{"tekton", deploy.CIOptions{Approve: "production"}}, {"argo-rollouts", deploy.CIOptions{Schedule: "0 3 * * 1"}},
	} {
		c.o.Experiment = "first-drill"
		if text, err := deploy.CI(c.system, c.o); err == nil {
			t.Errorf("%s takes %+v:\n%s", c.system, c.o, text)
		}
	}
}
