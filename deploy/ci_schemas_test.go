package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// What the systems themselves publish about their files, in versions that stay the same. Nothing of it is kept here.
const (
	githubParser = "@actions/workflow-parser@0.3.61"          // GitHub's own
	gitlabSchema = "gitlab-ci-local@4.60.0"                   // has GitLab's ci.json inside
	tektonCRDs   = "github.com/tektoncd/pipeline@v1.6.0"      // config/300-crds
	argoCRDs     = "github.com/argoproj/argo-rollouts@v1.8.3" // manifests/crds
	parseGitHub  = `import {parseWorkflow, NoOperationTraceWriter, convertWorkflowTemplate} from "@actions/workflow-parser";
import fs from "fs";
const r = parseWorkflow({name: "lockdrill.yaml", content: fs.readFileSync(0, "utf8")}, new NoOperationTraceWriter());
let wrong = r.context.errors.getErrors().map(e => e.message);
if (!wrong.length) wrong = ((await convertWorkflowTemplate(r.context, r.value)).errors || []).map(e => e.Message);
console.log(wrong.join("\n"));
process.exit(wrong.length ? 1 : 0);`
	parseAction = `import {NoOperationTraceWriter} from "@actions/workflow-parser";
import {parseAction, convertActionTemplate} from "./node_modules/@actions/workflow-parser/dist/actions/index.js";
import fs from "fs";
const r = parseAction({name: "action.yml", content: fs.readFileSync(0, "utf8")}, new NoOperationTraceWriter());
let wrong = r.context.errors.getErrors().map(e => e.message);
if (!wrong.length) { convertActionTemplate(r.context, r.value); wrong = r.context.errors.getErrors().map(e => e.message); }
console.log(wrong.join("\n"));
process.exit(wrong.length ? 1 : 0);`
)

// output is what a command of a tool prints in a folder.
func output(t *testing.T, dir, stdin, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) && len(out) == 0 {
		out = failed.Stderr
	}
	return string(out), err
}

func must(t *testing.T, dir, stdin, name string, args ...string) string {
	t.Helper()
	out, err := output(t, dir, stdin, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// module is the folder of a Go module's archive.
func module(t *testing.T, name string) string {
	t.Helper()
	var got struct{ Dir string }
	testkit.Must(t, json.Unmarshal([]byte(must(t, t.TempDir(), "", "go", "mod", "download", "-json", name)), &got))
	return got.Dir
}

// resource is the schema of a custom resource's version, in which a field that the cluster would drop is an error.
func resource(t *testing.T, path, version string) *jsonschema.Schema {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPI map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	unmarshal(t, testkit.Read(t, path), &crd)
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			closed(v.Schema.OpenAPI)
			return compiled(t, v.Schema.OpenAPI)
		}
	}
	t.Fatalf("%s has no version %s", path, version)
	return nil
}

func closed(schema map[string]any) {
	for _, v := range schema {
		switch v := v.(type) {
		case map[string]any:
			closed(v)
		case []any:
			for _, part := range v {
				if part, ok := part.(map[string]any); ok {
					closed(part)
				}
			}
		}
	}
	if _, ok := schema["properties"].(map[string]any); ok && schema["x-kubernetes-preserve-unknown-fields"] == nil && schema["type"] == "object" {
		schema["additionalProperties"] = false
	}
}

// asJSON is a value of YAML as a decoder of JSON would have it.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	testkit.Must(t, err)
	if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return v
}

func compiled(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	testkit.Must(t, c.AddResource("mem:/schema", asJSON(t, schema)))
	s, err := c.Compile("mem:/schema")
	testkit.Must(t, err)
	return s
}

// The exported documents are what the systems take, by what they publish themselves, and each judge finds a misspelt field.
func TestCIFilesAreValid(t *testing.T) {
	if os.Getenv("LOCKDRILL_CI_SCHEMAS") == "" {
		t.Skip("SKIPPED, NOT TESTED: `make ci-schemas` fetches what the systems publish")
	}
	tools := t.TempDir()
	must(t, tools, "", "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", githubParser)
	// it imports JSON as no released Node.js lets it without a bundler
	must(t, tools, "", "sh", "-c", `grep -rlE 'from "[^"]*\.json"' node_modules/@actions/*/dist | xargs sed -i -E 's/(from "[^"]*\.json");/\1 with {type: "json"};/'`)
	testkit.Write(t, filepath.Join(tools, "parse.mjs"), []byte(parseGitHub))
	testkit.Write(t, filepath.Join(tools, "action.mjs"), []byte(parseAction))
	must(t, tools, "", "npm", "pack", "--silent", gitlabSchema)
	must(t, tools, "", "sh", "-c", "tar -xzf gitlab-ci-local-*.tgz")
	schema := must(t, tools, `import {schema} from "./package/src/schema/schema.js"; console.log(JSON.stringify(schema))`, "node", "--input-type=module", "-")
	var gitlab any
	testkit.Must(t, json.Unmarshal([]byte(schema), &gitlab))
	by := func(s *jsonschema.Schema) func(t *testing.T, text []byte) error {
		return func(t *testing.T, text []byte) error {
			for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
				var doc map[string]any
				if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if doc["kind"] != "ConfigMap" { // of Kubernetes itself
					if err := s.Validate(asJSON(t, doc)); err != nil {
						return err
					}
				}
			}
		}
	}
	parsed := func(script string) func(t *testing.T, text []byte) error {
		return func(t *testing.T, text []byte) error {
			out, err := output(t, tools, string(text), "node", script)
			if err != nil {
				err = errors.New(out)
			}
			return err
		}
	}
	judged := func(t *testing.T, text []byte, field string, judge func(t *testing.T, text []byte) error) {
		t.Helper()
		if err := judge(t, text); err != nil {
			t.Error(err)
		}
		if err := judge(t, bytes.Replace(text, []byte(field), []byte("x"+field), 1)); err == nil {
			t.Errorf("a misspelt %s is taken: this judge finds nothing", field)
		}
	}
	made := reusable(t)
	judged(t, made["action.yml"], "using:", parsed("action.mjs"))
	judged(t, made["action.yml"], "shell:", parsed("action.mjs"))
	_, body, _ := bytes.Cut(made["templates/drill.yml"], []byte("\n---\n")) // what comes before, its inputs, that schema does not know
	judged(t, body, "interruptible:", by(compiled(t, gitlab)))
	for _, c := range []struct {
		system, field string // a field that the judge knows
		judge         func(t *testing.T, text []byte) error
	}{
		{"github", "runs-on:", parsed("parse.mjs")},
		{"gitlab", "interruptible:", by(compiled(t, gitlab))},
		{"tekton", "onError:", by(resource(t, filepath.Join(module(t, tektonCRDs), "config", "300-crds", "300-task.yaml"), "v1"))},
		{"argo-rollouts", "backoffLimit:", by(resource(t, filepath.Join(module(t, argoCRDs), "manifests", "crds", "analysis-template-crd.yaml"), "v1alpha1"))},
	} {
		all := []deploy.CIOptions{
			{Experiment: "first-drill", InconclusivePasses: true},
			{Experiment: "drills/weekly.yaml", File: []byte("kind: Experiment\n"), Redis: experiments.RedisSpawn},
		}
		if c.system == "github" || c.system == "gitlab" {
			all = append(all, deploy.CIOptions{Experiment: "approved.yaml", File: []byte("kind: Experiment\n"), Schedule: "17 5 * * 1", Approve: "production"},
				deploy.CIOptions{Experiment: "asked.yaml", File: []byte("kind: Experiment\n"), Approve: "production"},
				deploy.CIOptions{Experiment: "weekly.yaml", File: []byte("kind: Experiment\n"), Schedule: "17 5 * * 1"})
		}
		for _, o := range all {
			t.Run(c.system+" with "+o.Experiment, func(t *testing.T) {
				text, err := deploy.CI(c.system, o)
				testkit.Must(t, err)
				judged(t, text, c.field, c.judge)
			})
		}
	}
}
