package deploy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// scheduled are the files of a base and of a chart of the same drill.
func scheduled(t *testing.T) (base, chart map[string][]byte) {
	t.Helper()
	e := gameDay(t)
	network, err := deploy.NetworkFor(e)
	testkit.Must(t, err)
	o := deploy.KustomizeOptions{Job: jobOf(t, e), Network: network, Rules: []deploy.Rule{{Resource: "pods", Verbs: []string{"get"}}}}
	o.Job.Upload = "http://lockdrill-server:8420"
	o.Job.Schedule, o.Job.Resolved = "0 3 * * 1-5", []byte("name: game-day\ndescription: \"image: {{ .Values.image }}, {pod}_*\"\n")
	if base, err = deploy.Kustomize(o); err != nil {
		t.Fatal(err)
	}
	if chart, err = deploy.Helm(o); err != nil {
		t.Fatal(err)
	}
	return base, chart
}

// objects are manifests by kind and name.
func objects(t *testing.T, texts ...[]byte) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, text := range texts {
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			var o map[string]any
			if err := yaml.Unmarshal(doc, &o); err != nil {
				t.Fatalf("%v\n%s", err, doc)
			}
			if o != nil {
				all[o["kind"].(string)+" "+o["metadata"].(map[string]any)["name"].(string)] = o
			}
		}
	}
	return all
}

// installed are the objects of a base as an overlay for a namespace has them.
func installed(t *testing.T, base map[string][]byte, namespace string) map[string]map[string]any {
	t.Helper()
	all := objects(t, base["drill.yaml"], base["permissions.yaml"], base["network.yaml"])
	for _, o := range all {
		o["metadata"].(map[string]any)["namespace"] = namespace
		if o["kind"] == "RoleBinding" {
			o["subjects"].([]any)[0].(map[string]any)["namespace"] = namespace
		}
	}
	return all
}

// rendered are the templates of a chart, filled in as Helm does: they use nothing of it but values, the namespace and toJson.
func rendered(t *testing.T, chart map[string][]byte, set map[string]any) map[string]map[string]any {
	t.Helper()
	values := map[string]any{}
	testkit.Must(t, yaml.Unmarshal(chart["values.yaml"], &values))
	for name, value := range set {
		if _, there := values[name]; !there {
			t.Errorf("values.yaml has no %s", name)
		}
		values[name] = value
	}
	own := template.FuncMap{"toJson": func(v any) (string, error) { text, err := json.Marshal(v); return string(text), err }}
	var texts [][]byte
	for name, text := range chart {
		if !strings.HasPrefix(name, "templates/") {
			continue
		}
		var b bytes.Buffer
		tmpl, err := template.New(name).Funcs(own).Option("missingkey=error").Parse(string(text))
		if err == nil {
			err = tmpl.Execute(&b, map[string]any{"Values": values, "Release": map[string]string{"Namespace": "pre"}})
		}
		testkit.Must(t, err)
		texts = append(texts, b.Bytes())
	}
	return objects(t, texts...)
}

// The chart's own values give what the base says, object by object.
func TestChartSaysWhatTheBaseSays(t *testing.T) {
	base, chart := scheduled(t)
	want, got := installed(t, base, "pre"), rendered(t, chart, nil)
	if len(want) < 6 || len(got) != len(want) {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
	for name, o := range want {
		if !reflect.DeepEqual(got[name], o) {
			t.Errorf("%s:\n%v\nwant\n%v", name, got[name], o)
		}
	}
}

// Each value changes the object that it is for.
func TestChartTakesItsValues(t *testing.T) {
	_, chart := scheduled(t)
	for name, value := range map[string]any{
		"image": "registry.example/other:2", "schedule": "@daily", "timeZone": "Europe/Oslo", "suspend": true, "storage": "5Gi", "priorityClassName": "drills-low",
		"imagePullSecrets": []any{map[string]any{"name": "chart-registry"}}, "nodeSelector": map[string]any{"pool": "chart-pool"},
		"annotations": map[string]any{"chart.example/a": "b"}, "resources": map[string]any{"limits": map[string]any{"memory": "3Gi"}},
		"tolerations": []any{map[string]any{"key": "chart-toleration"}}, "affinity": map[string]any{"nodeAffinity": map[string]any{}},
	} {
		text, err := json.Marshal(rendered(t, chart, map[string]any{name: value}))
		testkit.Must(t, err)
		want, err := json.Marshal(value)
		testkit.Must(t, err)
		if !strings.Contains(string(text), `"`+name+`":`+string(want)) {
			t.Errorf("%s is not %s:\n%s", name, want, text)
		}
	}
}

// A Pushgateway of the values is pushed to, and its port is let out; nothing else changes.
func TestChartPushes(t *testing.T) {
	_, chart := scheduled(t)
	set := map[string]any{"pushgateway": "http://push:9092", "pushgatewayPort": 9092}
	was, now := rendered(t, chart, nil), rendered(t, chart, set)
	for name, o := range now {
		text, err := json.Marshal(o)
		testkit.Must(t, err)
		kind, _, _ := strings.Cut(name, " ")
		want := map[string]string{"CronJob": `"--upload","http://lockdrill-server:8420","--pushgateway","http://push:9092"]`, "NetworkPolicy": `{"ports":[{"port":9092,"protocol":"TCP"}]}`}[kind]
		if want != "" && !strings.Contains(string(text), want) || want == "" && !reflect.DeepEqual(o, was[name]) {
			t.Errorf("%s, want %s:\n%s", name, want, text)
		}
	}
	e := gameDay(t)
	o := deploy.KustomizeOptions{Job: jobOf(t, e)}
	o.Job.Schedule, o.Job.Flags = "@daily", []string{"--environment", "local", "--pushgateway", "http://push.example:9093/x", "--on-inconclusive", "pass"}
	own, err := deploy.Helm(o)
	testkit.Must(t, err)
	values := string(own["values.yaml"])
	if !strings.Contains(values, "pushgateway: \"http://push.example:9093/x\"\npushgatewayPort: 9093\n") || strings.Contains(string(own["templates/drill.yaml"]), "push.example") {
		t.Errorf("values:\n%s\n%s", values, own["templates/drill.yaml"])
	}
}

// What a drill asks for in a further namespace is a Role there, for the account of the release; a base leaves it to export rbac.
func TestChartHasTheRolesOfFurtherNamespaces(t *testing.T) {
	o := deploy.KustomizeOptions{Job: jobOf(t, gameDay(t)), Rules: []deploy.Rule{{Resource: "pods", Verbs: []string{"get"}}, {Resource: "pods", Verbs: []string{"list"}, Namespace: "shop"}}}
	o.Job.Schedule = "@daily"
	chart, err := deploy.Helm(o)
	testkit.Must(t, err)
	base, err := deploy.Kustomize(o)
	if err != nil || strings.Contains(string(base["permissions.yaml"]), "shop") {
		t.Errorf("%v\n%s", err, base["permissions.yaml"])
	}
	only := map[string][]byte{"values.yaml": chart["values.yaml"], "templates/permissions-beside.yaml": chart["templates/permissions-beside.yaml"]}
	all := rendered(t, only, nil)
	for _, kind := range []string{"Role", "RoleBinding"} {
		if made := all[kind+" "+deploy.RunnerName("game-day")]; len(all) != 2 || made["metadata"].(map[string]any)["namespace"] != "shop" {
			t.Errorf("%s: %v", kind, all)
		}
	}
	if subject := all["RoleBinding "+deploy.RunnerName("game-day")]["subjects"].([]any)[0].(map[string]any); subject["namespace"] != "pre" {
		t.Errorf("subject %v", subject)
	}
}

// A real Helm takes the chart, and makes the same of it.
func TestHelmTakesTheChart(t *testing.T) {
	helm := os.Getenv("LOCKDRILL_HELM")
	if helm == "" {
		t.Skip("SKIPPED, NOT TESTED: `make helm` builds a real Helm and runs this")
	}
	base, chart := scheduled(t)
	dir := t.TempDir()
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "templates"), 0o700))
	for name, text := range chart {
		testkit.Write(t, filepath.Join(dir, name), text)
	}
	must(t, dir, "", helm, "lint", "--strict", dir)
	got := objects(t, []byte(strings.TrimPrefix(must(t, dir, "", helm, "template", "release", dir, "--namespace", "pre"), "---\n")))
	for name, o := range installed(t, base, "pre") {
		if !reflect.DeepEqual(got[name], o) {
			t.Errorf("%s:\n%v\nwant\n%v", name, got[name], o)
		}
	}
}
