package experiments

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// onlyTheDecoder refuses these bad files, value by value, and the schema cannot.
var onlyTheDecoder = map[string]string{
	"anchors":             "gone once YAML is read",
	"keys-unprintable":    "a NUL, which no text may have",
	"lease-with-a-key":    "fields that exclude one another",
	"max-run":             "how long a duration is",
	"merge-keys":          "gone once YAML is read",
	"policy-loop":         "fields that exclude one another",
	"profile-label":       "a label beside a policy, a shipped name without",
	"silent-nul":          "a NUL, which no text may have",
	"two-documents":       "a schema is of one document",
	"unknown-profile":     "a label beside a policy, a shipped name without",
	"unknown-profile-far": "a label beside a policy, a shipped name without",
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := Schema()
	return compiled(t, data, err)
}

func compiled(t *testing.T, data []byte, err error) *jsonschema.Schema {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaFile, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// against is what the schema has against a file; what is no YAML, or no JSON, is not its business.
func against(t *testing.T, s *jsonschema.Schema, data []byte) (problem error, isJSON bool) {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, false
	}
	asJSON, err := json.Marshal(doc)
	if err != nil {
		return nil, false // such as .nan
	}
	doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc), true
}

func TestSchemaTakesWhatTheDecoderTakes(t *testing.T) {
	s := compiledSchema(t)
	var files []string
	for _, pattern := range []string{"testdata/*.yaml", "testdata/sheet/drill.yaml", "../scenarios/*.yaml", "../scenarios/witness/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files like %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Load(file)
		if err != nil {
			t.Fatalf("%s is no good file: %v", file, err)
		}
		if folder := filepath.Dir(file); strings.HasPrefix(folder, "../scenarios") {
			up, err := filepath.Rel(folder, "../scenarios")
			if line := strings.Replace(Modeline, SchemaFile, filepath.Join(up, SchemaFile), 1); err != nil || !strings.HasPrefix(string(data), line) {
				t.Errorf("%s does not begin with the line by which editors find the schema:\n%s", file, line)
			}
		}
		if problem, ok := against(t, s, data); !ok || problem != nil {
			t.Errorf("%s: the decoder takes it, the schema does not: %v", file, problem)
		}
		resolved, err := Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if problem, ok := against(t, s, resolved); !ok || problem != nil {
			t.Errorf("%s, resolved: the schema does not take it: %v\n%s", file, problem, resolved)
		}
	}
}

// A bad file whose values are wrong one by one is refused by the schema. What depends on values of several sections is the checker's, and
// no schema's.
func TestSchemaRefusesWhatTheDecoderRefuses(t *testing.T) {
	s := compiledSchema(t)
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d bad files: %v", len(files), err)
	}
	refused := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		problem, isJSON := against(t, s, data)
		switch why, listed := onlyTheDecoder[name]; {
		case !isJSON:
		case listed && problem != nil:
			t.Errorf("%s: only the decoder is said to refuse it (%s), and the schema does too: take it out of onlyTheDecoder", name, why)
		case !listed && problem == nil && decoding(name, data) != nil:
			t.Errorf("%s: the decoder refuses it, the schema does not; if it cannot, add it to onlyTheDecoder:\n%v", name, decoding(name, data))
		case problem != nil:
			refused++
		}
	}
	if refused < 30 {
		t.Errorf("the schema refuses %d bad files only", refused)
	}
}

// decoding is what is wrong with the values of a file one by one.
func decoding(name string, data []byte) error {
	f := vocabulary.Open(name, data, false)
	f.Decode(&file{})
	return f.Err()
}

// One value at a time, for the borders that no file shows.
func TestSchemaAndDecoderAgreeOnValues(t *testing.T) {
	s, base := compiledSchema(t), good(t)
	for _, c := range []struct {
		line  string
		right bool
	}{
		{"time_scale: 0.5", true}, {"time_scale: 1", true}, {"time_scale: 0", false}, {"time_scale: 1.1", false}, {"time_scale: -1", false}, {"time_scale: fast", false},
		{"seed: 1", true}, {"seed: 0", false}, {"seed: 1.5", false}, {"seed: 9007199254740993", true},
		{"description: \"\"", false}, {"description: [a]", false}, {"description: 7", false},
		{"environment: staging", true}, {"environment: \"two words\"", false}, {"environment:", false},
		{"steady_state: {for: 0s}", true}, {"steady_state: {for: 0}", false}, {"steady_state: {timeout: 0s}", false}, {"steady_state: {timeout: 0m0.0s}", false},
		{"limits: {max_run: 1h30m}", true}, {"steady_state: {for: 1.5s}", true}, {"steady_state: {for: .5s}", true}, {"steady_state: {for: -1s}", false},
		{"steady_state: {for: 1 s}", false}, {"steady_state: {for: 07s}", false}, {"limits: {max_run: 1h05m}", true}, {"steady_state: 5s", false}, {"steady_state: {}", true},
		{"redis: {mode: spwan}", false}, {"redis: {mode: spawn}", true}, {"proxy: []", false},
		{"abort_when: []", false}, {"abort_when: [{abandonments_above: 3}]", true}, {"abort_when: [{abandonments_above: -3}]", false},
		{"limits: {max_kills: 2147483647}", true}, {"limits: {max_kills: 2147483648}", false},
		{"redis: {mode: external, url: \"redis://127.0.0.1:6379\"}", true}, {"redis: {mode: external}", false}, {"redis: {url: \"redis://127.0.0.1:6379\"}", false},
		{"redis: {mode: spawn, ca: ca.pem}", false}, {"redis: {mode: external, url: \"rediss://127.0.0.1:6379\", ca: ca.pem}", true},
		{"redis: {ca: ca.pem}", false}, {"proxy: {mode: external}", false}, {"abort_when: [{}]", false},
		{"probes: {promql: [{name: a, url: \"http://127.0.0.1:1\", query: up, bearer_env: T}]}", true},
		{"probes: {promql: [{name: a, url: \"http://127.0.0.1:1\", query: up, bearer_env: T, username_env: U, password_env: P}]}", false},
		{"windows: [{days: [mon], zone: UTC}]", true}, {"windows: [{days: [monday], zone: UTC}]", false}, {"windows: [{days: [mon]}]", false},
	} {
		data := []byte(base + c.line + "\n")
		_, err := Parse("value.yaml", data)
		problem, _ := against(t, s, data)
		if (err == nil) != c.right || (problem == nil) != c.right {
			t.Errorf("%s: right is %v; the decoder says %v, the schema %v", c.line, c.right, err, problem)
		}
	}
}

// Every field says in an editor what it is for. The texts are the comments of the fields; write them for whoever writes a file.
func TestEveryFieldIsDescribed(t *testing.T) {
	want := fieldComments(t)
	if *update {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(want)) {
			b.WriteString(name + "\t" + want[name] + "\n")
		}
		if err := os.WriteFile("descriptions.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, text := range want {
		switch {
		case text == "":
			t.Errorf("%s has no description: give the field a comment", name)
		case slices.ContainsFunc([]string{`""`, "nil", "Load ", "Scale "}, func(code string) bool { return strings.Contains(text, code) }):
			t.Errorf("%s is described in words of the code, and editors show it to whoever writes a file: %s", name, text)
		}
	}
	if !maps.Equal(want, describedFields()) {
		t.Error("descriptions.txt is not what the comments of the fields say: go test ./experiments -run TestEveryFieldIsDescribed -update")
	}
}

// fieldComments are the comments of all fields that a file can have.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	for folder, prefix := range map[string]string{".": "", "fault": "fault.", "../lockcore": "lockcore."} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if typed, ok := n.(*ast.TypeSpec); ok {
					commentsOf(typed, prefix, comments)
				}
				return true
			})
		}
	}
	out := map[string]string{}
	for _, section := range append(vocabulary.Sections(&file{}), vocabulary.Sections(&gameDayFile{})...) {
		for _, d := range vocabulary.Fields(section.Type) {
			if d.Kind == "" {
				out[d.Doc] = comments[d.Doc]
			}
		}
	}
	return out
}

func commentsOf(typed *ast.TypeSpec, prefix string, comments map[string]string) {
	s, ok := typed.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
		for _, name := range f.Names {
			comments[prefix+typed.Name.Name+"."+name.Name] = text
		}
	}
}

// What depends on several fields of one section is refused while it is typed: the schema refuses these bad files, whose values are right
// one by one.
func TestSchemaRefusesWhatDoesNotGoTogether(t *testing.T) {
	s := compiledSchema(t)
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if problem, _ := against(t, s, data); problem != nil && decoding(name, data) == nil {
			got = append(got, name)
		}
	}
	want := strings.Fields(`
		abandoned-by abort-when-nothing aims backoff-wake effects-alone effects-of-whom effects-queries effects-sources effects-unanswered holder-ways holders-value
		holders-ways order phase-and-on policy-try processes-none processes-two proxy-url proxy redis-external-without-url redis-not-external redis-servers-embedded
		redis-servers-mixed redis-servers-spawn redis-socket-way redis-sockets redis-url-not-external release-retry rolling route-embedded several-observed
		store-etcd-fields store-etcd-spawn store-guest-etcd store-guest-lease store-guest-nowhere store-lease-spawn store-redis-fields told-by`)
	if !slices.Equal(got, want) {
		t.Errorf("refused are %q\nwant        %q", got, want)
	}
}

func TestSchemaDescribesFaults(t *testing.T) {
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var s vocab.JSONSchema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if p := s.Defs["ProbeSettings"].Properties["every"]; p.Default != nil { // the ledger has another than the keys
		t.Errorf("every probe looks every %v by default, the schema says", p.Default)
	}
	for _, kind := range fault.Kinds() {
		if p := s.Defs["Fault"].Properties[kind]; p == nil || p.Description == "" {
			t.Errorf("fault %s is %+v", kind, p)
		}
	}
}
