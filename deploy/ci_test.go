package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// The shell parts of the CI steps run for real, as each system runs them, with a lockdrill that ends as it is told.

// fakeLockdrill takes its statuses from the file plan, one a call, and leaves behind what a run leaves.
const fakeLockdrill = `#!/bin/sh
if [ "$1" = --version ]; then exit 0; fi
echo "$@" >> "$FAKE/calls"
status=$(sed -n "$(wc -l < "$FAKE/calls")p" "$FAKE/plan")
passes=
while [ $# -gt 0 ]; do
  case $1 in
    --out) mkdir -p "$2"; [ -z "$(ls "$2")" ] || exit 2; echo report > "$2/report.md"; shift ;;
    --junit) echo "<testsuites/>" > "$2"; shift ;;
    --result-file) printf %s "$status" > "$2"; shift ;;
    --on-inconclusive=pass) passes=yes ;;
  esac
  shift
done
if [ "$status" = 11 ] && [ "$passes" ]; then status=0; fi
if [ "$status" = cancelled ] || [ "$status" = cancels ] || [ "$status" = breaks ]; then
  code=12
  if [ "$status" = breaks ]; then code=1; fi
  trap 'echo cleaned-up > "$FAKE/cleaned"; exit $code' TERM
  echo > "$FAKE/ready"
  if [ "$status" = cancels ]; then kill -TERM "$PPID"; fi
  while :; do sleep 0.05; done
fi
exit "$status"
`

// job is one CI job on this machine.
type job struct {
	dir   string // its checkout
	fake  string // where the fakes write
	bin   string // a folder on its PATH
	env   []string
	enter []string // what begins each command; none = it runs here
	junit string   // below dir, as the snippet publishes it; "" = it does not
	kept  string   // below dir: what the snippet keeps
}

func newJob(t *testing.T, plan ...string) *job {
	t.Helper()
	j := &job{dir: t.TempDir(), fake: t.TempDir(), bin: t.TempDir()}
	testkit.Write(t, filepath.Join(j.fake, "plan"), []byte(strings.Join(plan, "\n")+"\n"))
	given := filepath.Join(j.fake, "lockdrill") // by its path
	testkit.Write(t, given, []byte(fakeLockdrill))
	for _, tool := range []string{"apt-get", "redis-server"} { // no test installs anything
		executable(t, filepath.Join(j.bin, tool), "#!/bin/sh\nexit 0\n")
	}
	j.env = []string{"FAKE=" + j.fake, "PATH=" + j.bin + ":" + os.Getenv("PATH"), "HOME=" + j.dir, "LOCKDRILL=" + given}
	return j
}

// executable writes a program. Nothing is forked meanwhile: a child of another test would have the file open for writing as well, and
// running it would then fail with "text file busy".
func executable(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o755))
}

// run executes a command in the job and returns its status.
func (j *job) run(t *testing.T, argv ...string) int {
	t.Helper()
	cmd := j.command(argv...)
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%q: %v", argv, err)
	}
	t.Logf("%s: status %d\n%s", argv[0], cmd.ProcessState.ExitCode(), out)
	return cmd.ProcessState.ExitCode()
}

func (j *job) command(argv ...string) *exec.Cmd {
	argv = append(slices.Clone(j.enter), argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = j.dir, j.env
	return cmd
}

// script puts a script into a file, as runners do, and runs it.
func (j *job) script(t *testing.T, text string, shell ...string) int {
	t.Helper()
	path := filepath.Join(j.fake, "script")
	executable(t, path, text)
	return j.run(t, append(shell, path)...)
}

func (j *job) lines(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(j.fake, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(data)))
}

// systems run an exported step from its text: what a runner would do with it, and nothing that it would not.
var systems = map[string]func(t *testing.T, j *job, text []byte) int{
	"github": onGitHub, "gitlab": onGitLab, "jenkins": onJenkins, "tekton": onTekton, "argo-rollouts": onArgo,
}

func onGitHub(t *testing.T, j *job, text []byte) int {
	var doc struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct {
				Uses, Run, Shell, If string
				With                 map[string]any
			}
		}
	}
	unmarshal(t, text, &doc)
	job := doc.Jobs["lockdrill"]
	path := filepath.Join(j.fake, "github-path")
	testkit.Write(t, path, nil)
	j.env = append(j.env, "RUNNER_TEMP="+t.TempDir(), "GITHUB_PATH="+path)
	for k, v := range job.Env {
		if v != "${{ vars."+k+" }}" { // else it is the repository's variable, which the job has by that name
			j.env = append(j.env, k+"="+v)
		}
	}
	status := 0
	for _, s := range job.Steps {
		if s.Run != "" && status == 0 {
			if s.Shell != "bash" {
				t.Errorf("a step runs in %q", s.Shell)
			}
			status = j.script(t, s.Run, "bash", "--noprofile", "--norc", "-eo", "pipefail")
			for _, added := range j.lines(t, "github-path") {
				j.env = append(j.env, "PATH="+strings.TrimSpace(added)+":"+j.bin+":"+os.Getenv("PATH"))
			}
		}
		if strings.HasPrefix(s.Uses, "actions/upload-artifact@") {
			if s.If != "always()" {
				t.Errorf("the report is kept if %q", s.If)
			}
			j.kept = s.With["path"].(string)
		}
	}
	return status
}

func onGitLab(t *testing.T, j *job, text []byte) int {
	var doc map[string]struct {
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Retry        any
		AllowFailure any `yaml:"allow_failure"`
		Artifacts    struct {
			When    string
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	unmarshal(t, text, &doc)
	job := doc["lockdrill"]
	if job.Artifacts.When != "always" || job.Retry != nil || job.AllowFailure != nil {
		t.Errorf("%+v", job)
	}
	for k, v := range job.Variables {
		j.env = append(j.env, k+"="+strings.ReplaceAll(v, "$CI_PROJECT_DIR", j.dir))
	}
	j.kept, j.junit = job.Artifacts.Paths[0], job.Artifacts.Reports.JUnit
	all := strings.Join(append(job.BeforeScript, job.Script...), "\n")
	return j.script(t, "set -eo pipefail\n"+all, "bash")
}

func onJenkins(t *testing.T, j *job, text []byte) int {
	build := strings.NewReplacer("${env.BUILD_NUMBER}", "17", "${env.WORKSPACE}", j.dir, "${env.PATH}", j.bin+":"+os.Getenv("PATH")).Replace(string(text))
	env := regexp.MustCompile(`(?m)^    ([A-Z_]+) = ['"](.*)['"]$`).FindAllStringSubmatch(build, -1)
	for _, e := range env {
		j.env = append(j.env, e[1]+"="+e[2])
	}
	blocks := regexp.MustCompile(`(?s)sh '''(.*?)'''`).FindAllStringSubmatch(build, -1)
	if want := 5 + strings.Count(build, "DRILL_CONSENT = "); len(env) != want || len(blocks) != want-3 {
		t.Fatalf("%d variables, %d sh blocks", len(env), len(blocks))
	}
	post := build[strings.Index(build, "always {"):]
	j.kept = strings.TrimSuffix(regexp.MustCompile(`archiveArtifacts artifacts: "(.*?)"`).FindStringSubmatch(post)[1], "**")
	j.junit = regexp.MustCompile(`junit testResults: "(.*?)"`).FindStringSubmatch(post)[1]
	for _, b := range blocks {
		if status := j.script(t, b[1]); status != 0 { // by its first line, as Jenkins does
			return status
		}
		if hash, err := os.ReadFile(filepath.Join(j.dir, "lockdrill-plan", "hash")); err == nil { // readFile, after the plan
			j.env = append(j.env, "DRILL_PLAN="+strings.TrimSpace(string(hash)))
		}
	}
	return 0
}

func onTekton(t *testing.T, j *job, text []byte) int {
	var doc struct {
		Spec struct {
			Params []struct{ Name, Default string }
			Steps  []struct {
				Name, Script string
				OnError      string `yaml:"onError"`
				Env          []struct{ Name, Value string }
			}
		}
	}
	unmarshal(t, text, &doc)
	exitCode, verdict := filepath.Join(j.fake, "exitCode"), filepath.Join(j.fake, "verdict")
	values := []string{
		"$(workspaces.report.path)", filepath.Join(j.dir, "reports"), "$(workspaces.source.path)", j.dir,
		"$(context.taskRun.name)", "gate-x7", "$(results.verdict.path)", verdict, "$(steps.step-drill.exitCode.path)", exitCode,
	}
	for _, p := range doc.Spec.Params {
		values = append(values, "$(params."+p.Name+")", p.Default)
	}
	fill := strings.NewReplacer(values...)
	executable(t, filepath.Join(j.bin, "lockdrill"), fakeLockdrill) // the image has it
	j.kept = "reports"
	if first := doc.Spec.Steps[0]; first.Name != "drill" || first.OnError != "continue" || len(doc.Spec.Steps) != 2 {
		t.Errorf("steps %+v: a failed drill would end the task before its report can be picked up", doc.Spec.Steps)
	}
	for _, s := range doc.Spec.Steps {
		for _, e := range s.Env {
			j.env = append(j.env, e.Name+"="+fill.Replace(e.Value))
		}
		status := j.script(t, fill.Replace(s.Script))
		testkit.Write(t, exitCode, []byte(fmt.Sprint(status)))
		if err := os.Chmod(exitCode, 0o644); err != nil { // for the image's user
			t.Fatal(err)
		}
		if status != 0 && s.OnError != "continue" {
			return status
		}
	}
	if len(j.lines(t, "verdict")) != 1 {
		t.Error("the task leaves no result")
	}
	return 0
}

func onArgo(t *testing.T, j *job, text []byte) int {
	var template struct {
		Kind string
		Spec struct {
			Args    []struct{ Name, Value string }
			Metrics []struct {
				FailureLimit          *int `yaml:"failureLimit"`
				ConsecutiveErrorLimit *int `yaml:"consecutiveErrorLimit"`
				Provider              struct {
					Job struct {
						Spec struct {
							BackoffLimit *int `yaml:"backoffLimit"`
							Template     struct {
								Spec struct {
									RestartPolicy string `yaml:"restartPolicy"`
									Containers    []struct {
										Command, Args []string
										Env           []struct{ Name, Value string }
									}
								}
							}
						}
					}
				}
			}
		}
	}
	for dec := yaml.NewDecoder(bytes.NewReader(text)); template.Kind != "AnalysisTemplate"; {
		testkit.Must(t, dec.Decode(&template))
	}
	m := template.Spec.Metrics[0]
	job := m.Provider.Job.Spec
	if *job.BackoffLimit != 0 || *m.FailureLimit != 0 || *m.ConsecutiveErrorLimit != 0 || job.Template.Spec.RestartPolicy != "Never" {
		t.Errorf("something is tried again: %+v", m)
	}
	values := []string{"/reports/$(POD)", filepath.Join(j.dir, "reports", "pod-1")}
	for _, a := range template.Spec.Args {
		values = append(values, "{{args."+a.Name+"}}", a.Value)
	}
	fill := strings.NewReplacer(values...)
	executable(t, filepath.Join(j.bin, "lockdrill"), fakeLockdrill)
	c := job.Template.Spec.Containers[0]
	for _, e := range c.Env {
		j.env = append(j.env, e.Name+"="+fill.Replace(e.Value))
	}
	j.kept = "reports"
	return j.run(t, append(c.Command, fill.Replace(c.Args[0]))...)
}

func unmarshal(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := yaml.Unmarshal(text, v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// What each exit status becomes: the job's own status, how often was tried, and that the report is kept in any case.
func TestCIStepsGateOnTheStatus(t *testing.T) {
	for _, system := range deploy.CISystems() {
		for _, c := range []struct {
			plan   []string // statuses of the calls
			passes bool     // --on-inconclusive=pass
			want   int
			calls  int
		}{
			{plan: []string{"0"}, want: 0, calls: 1},
			{plan: []string{"2", "0"}, want: 2, calls: 1},
			{plan: []string{"10", "0"}, want: 10, calls: 1},
			{plan: []string{"11", "0"}, want: 11, calls: 1},
			{plan: []string{"11"}, passes: true, want: 0, calls: 1},
			{plan: []string{"10", "0"}, passes: true, want: 10, calls: 1},
			{plan: []string{"12", "0"}, want: 12, calls: 1},
			{plan: []string{"13", "0"}, want: 13, calls: 1},
			{plan: []string{"20", "0"}, want: 20, calls: 1},
			{plan: []string{"137", "0"}, want: 137, calls: 1},
			{plan: []string{"1", "0"}, want: 0, calls: 2},
			{plan: []string{"1", "10"}, want: 10, calls: 2},
			{plan: []string{"1", "1", "0"}, want: 1, calls: 2},
		} {
			t.Run(fmt.Sprintf("%s/%s/%v", system, strings.Join(c.plan, "-"), c.passes), func(t *testing.T) {
				t.Parallel()
				text, err := deploy.CI(system, deploy.CIOptions{Experiment: "drills/weekly.yaml", File: []byte("kind: Experiment\n"), InconclusivePasses: c.passes})
				testkit.Must(t, err)
				j := newJob(t, c.plan...)
				if got := systems[system](t, j, text); got != c.want {
					t.Errorf("the job ends with %d, want %d", got, c.want)
				}
				if calls := j.lines(t, "calls"); len(calls) != c.calls {
					t.Errorf("calls %q, want %d", calls, c.calls)
				}
				reports, err := filepath.Glob(filepath.Join(j.dir, j.kept, "*", "report.md"))
				if deeper, _ := filepath.Glob(filepath.Join(j.dir, j.kept, "*", "*", "report.md")); err != nil || len(reports)+len(deeper) != c.calls {
					t.Errorf("kept are %q and %q, %v", reports, deeper, err)
				}
				if j.junit != "" && !bytes.Contains(testkit.Read(t, filepath.Join(j.dir, j.junit)), []byte("testsuites")) {
					t.Errorf("no JUnit at %s", j.junit)
				}
			})
		}
	}
}

// A cancelled job: the shell gets the signal, the drill cleans up, and its status is the job's; also where the signal comes as soon as
// the drill is there.
func TestACancelledJobCleansUp(t *testing.T) {
	shells := [][2]string{{"bash", "cancelled"}, {"sh", "cancelled"}, {"bash", "cancels"}, {"sh", "cancels"}, {"bash", "breaks"}, {"sh", "breaks"}}
	for _, word := range []string{"cancelled", "cancels", "breaks"} {
		shells = append(shells, [2]string{busybox, word}) // the shell of the image
	}
	for _, c := range shells {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			shell := c[0]
			if _, err := exec.LookPath(shell); err != nil {
				missing(t, shell)
			}
			j := newJob(t, c[1])
			text, err := deploy.CI("argo-rollouts", deploy.CIOptions{Experiment: "first-drill"})
			testkit.Must(t, err)
			script := string(text[bytes.Index(text, []byte("set -euf")):bytes.Index(text, []byte("volumeMounts:"))])
			executable(t, filepath.Join(j.bin, "lockdrill"), fakeLockdrill)
			j.env = append(j.env, "DRILL=first-drill", "DRILL_FLAGS=", "DRILL_REPORT="+filepath.Join(j.dir, "reports"))
			cmd := j.command(shell, "-c", script)
			if shell == busybox {
				cmd = j.command(shell, "sh", "-c", script)
			}
			testkit.Must(t, cmd.Start())
			poll, limit := time.NewTicker(10*time.Millisecond), time.After(20*time.Second)
			defer poll.Stop()
			for len(j.lines(t, "ready")) == 0 {
				select {
				case <-poll.C:
				case <-limit:
					_ = cmd.Process.Kill()
					t.Fatal("the drill did not begin")
				}
			}
			if c[1] != "cancels" {
				testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
			}
			_ = cmd.Wait() // its status says it
			want := 12
			if c[1] == "breaks" { // no second try for who has cancelled the first
				want = 1
			}
			if code := cmd.ProcessState.ExitCode(); code != want || len(j.lines(t, "cleaned")) != 1 || len(j.lines(t, "calls")) != 1 {
				t.Errorf("status %d, cleaned up %q, calls %q", code, j.lines(t, "cleaned"), j.lines(t, "calls"))
			}
		})
	}
}

// A name that a CI system would replace or break is refused, not exported.
func TestCIRefusesNamesThatSystemsReplace(t *testing.T) {
	for _, name := range []string{"a$(rm).yaml", "it's.yaml", `a"b.yaml`, "a{{b}}.yaml", "a\nb.yaml", "a`b`.yaml", `a\b.yaml`} {
		for _, system := range deploy.CISystems() {
			if text, err := deploy.CI(system, deploy.CIOptions{Experiment: name, File: []byte("x: y\n")}); err == nil {
				t.Errorf("%s takes %q:\n%s", system, name, text)
			}
		}
	}
	if _, err := deploy.CI("travis", deploy.CIOptions{Experiment: "first-drill"}); err == nil {
		t.Error("an unknown system is taken")
	}
}
