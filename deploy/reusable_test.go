package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// reusable are the documents, and that they are what lies in the repository.
func reusable(t *testing.T) map[string][]byte {
	t.Helper()
	made, err := deploy.Reusable()
	testkit.Must(t, err)
	for path, text := range made {
		at := filepath.Join("..", path)
		if *update {
			testkit.Write(t, at, text)
		}
		if there, _ := os.ReadFile(at); !bytes.Equal(there, text) {
			t.Errorf("%s is not what deploy/ci makes: go test ./deploy -run Reusable -update, and read the difference", path)
		}
	}
	return made
}

// callers run a reusable document as its system does, with inputs.
var callers = map[string]func(t *testing.T, j *job, text []byte, inputs map[string]string) int{
	"action.yml": onAction,
	"templates/drill.yml": func(t *testing.T, j *job, text []byte, inputs map[string]string) int {
		head, body, _ := bytes.Cut(text, []byte("\n---\n"))
		var doc struct {
			Spec struct {
				Inputs map[string]struct{ Default, Description string }
			}
		}
		unmarshal(t, head, &doc)
		for name, in := range doc.Spec.Inputs {
			value, given := inputs[name]
			if !given {
				value = in.Default
			}
			body = bytes.ReplaceAll(body, []byte("$[[ inputs."+name+" ]]"), []byte(value))
		}
		if bytes.Contains(body, []byte("$[[")) {
			t.Errorf("an input that nothing declares: %s", body)
		}
		return onGitLab(t, j, body)
	},
}

func onAction(t *testing.T, j *job, text []byte, inputs map[string]string) int {
	var doc struct {
		Inputs  map[string]struct{ Default string }
		Outputs map[string]struct{ Value string }
		Runs    struct {
			Using string
			Steps []struct {
				ID, Uses, Run, Shell, If string
				Env, With                map[string]string
			}
		}
	}
	unmarshal(t, text, &doc)
	temp, path, out := t.TempDir(), filepath.Join(j.fake, "github-path"), filepath.Join(j.fake, "github-output")
	testkit.Write(t, path, nil)
	fill := []string{"${{ runner.temp }}", temp, "${{ github.action_path }}", inputs["source"], "${{ github.job }}", "gate", "${{ github.run_attempt }}", "1"}
	for name, in := range doc.Inputs {
		value, given := inputs[name]
		if !given {
			value = in.Default
		}
		fill = append(fill, "${{ inputs."+name+" }}", value)
	}
	filled := strings.NewReplacer(fill...)
	search := j.bin + ":" + os.Getenv("PATH")
	j.env = append(j.env, "RUNNER_TEMP="+temp, "GITHUB_PATH="+path, "GITHUB_OUTPUT="+out)
	own, status := j.env, 0
	for _, s := range doc.Runs.Steps {
		j.env = slices.Clone(own)
		for k, v := range s.Env {
			j.env = append(j.env, k+"="+filled.Replace(v))
		}
		for _, added := range j.lines(t, "github-path") {
			j.env = append(j.env, "PATH="+strings.TrimSpace(added)+":"+search)
		}
		switch {
		case strings.Contains(s.Run, "${{"):
			t.Errorf("an expression in a script, which whoever gives the input can write: %s", s.Run)
		case s.Run != "" && status == 0:
			if s.Shell != "bash" {
				t.Errorf("a step runs in %q", s.Shell)
			}
			status = j.script(t, s.Run, "bash", "--noprofile", "--norc", "-eo", "pipefail")
		case strings.HasPrefix(s.Uses, "actions/upload-artifact@"):
			if j.kept = s.With["path"]; s.If != "always()" {
				t.Errorf("the report is kept if %q", s.If)
			}
		case strings.HasPrefix(s.Uses, "actions/setup-go@") && s.If != "inputs.archive == ''":
			t.Errorf("Go is set up if %q", s.If)
		}
	}
	if doc.Runs.Using != "composite" || doc.Outputs["verdict"].Value != "${{ steps.drill.outputs.verdict }}" {
		t.Errorf("%+v", doc.Runs)
	}
	return status
}

// goBuild stands for Go: it makes the fake of lockdrill, and nothing where the script asks for something else.
const goBuild = `#!/bin/sh
[ "$*" = "build -C $SOURCE -buildvcs=false -tags full -o $8 ./cmd/lockdrill" ] || { echo "go $*" >&2; exit 99; }
cp "$FAKE/lockdrill" "$8"
`

// What others' pipelines name builds the commit that is checked out, or takes an archive with its sum, whatever lies on the PATH; the status is
// lockdrill's, and the report is kept.
func TestReusableStepsDrill(t *testing.T) {
	for path, text := range reusable(t) {
		for name, c := range map[string]struct {
			inputs map[string]string
			plan   []string
			want   int
			calls  int
			verb   string
		}{
			"built":               {plan: []string{"0"}, want: 0, calls: 1, verb: "0"},
			"built, failed":       {plan: []string{"10"}, want: 10, calls: 1, verb: "10"},
			"built, broken once":  {plan: []string{"1", "0"}, want: 0, calls: 2, verb: "0"},
			"flags":               {inputs: map[string]string{"flags": "--on-inconclusive=pass"}, plan: []string{"11"}, want: 0, calls: 1, verb: "11"},
			"archive":             {inputs: map[string]string{"archive": "archive", "sha256": "sum"}, plan: []string{"0"}, want: 0, calls: 1, verb: "0"},
			"archive, wrong sum":  {inputs: map[string]string{"archive": "archive", "sha256": strings.Repeat("0", 64)}, want: 1},
			"archive without sum": {inputs: map[string]string{"archive": "archive"}, want: 2},
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				j := newJob(t, c.plan...)
				inputs := maps.Clone(c.inputs)
				if inputs == nil {
					inputs = map[string]string{}
				}
				inputs["source"] = t.TempDir()
				archive := packed(t, fakeLockdrill)
				if inputs["archive"] != "" {
					inputs["archive"] = filepath.Join(j.fake, "lockdrill.tar.gz")
					testkit.Write(t, inputs["archive"], archive)
				}
				if inputs["sha256"] == "sum" {
					inputs["sha256"] = fmt.Sprintf("%x", sha256.Sum256(archive))
				}
				executable(t, filepath.Join(j.bin, "go"), goBuild)
				executable(t, filepath.Join(j.bin, "lockdrill"), "#!/bin/sh\nexit 77\n") // another one, on the PATH
				j.env = slices.DeleteFunc(append(j.env, "SOURCE="+inputs["source"]), func(v string) bool { return strings.HasPrefix(v, "LOCKDRILL=") })
				if got := callers[path](t, j, text, inputs); got != c.want {
					t.Errorf("status %d, want %d", got, c.want)
				}
				if calls := j.lines(t, "calls"); len(calls) != c.calls || c.calls > 0 && !strings.HasPrefix(calls[0], "run first-drill --out ") {
					t.Errorf("calls %q", calls)
				}
				if out := j.lines(t, "github-output"); path == "action.yml" && (len(out) > 0) != (c.calls > 0) || len(out) > 0 && out[len(out)-1] != "verdict="+c.verb+"\n" {
					t.Errorf("outputs %q", out)
				}
				if _, err := os.Stat(filepath.Join(j.dir, j.kept, "attempt-1", "report.md")); (err == nil) != (c.calls > 0) {
					t.Errorf("the report in %s: %v", j.kept, err)
				}
			})
		}
	}
}
