package experiments

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestDocExamples: every YAML example in the README and in docs/ that is an experiment, or some sections of one, is valid.
// Sections are tried in place of those of testdata/good.yaml. A block is not an experiment's if it is marked ```yaml ignore.
func TestDocExamples(t *testing.T) {
	var files []string
	for _, folder := range []string{"../docs", "../docs/runbooks"} {
		found, err := filepath.Glob(folder + "/*.md")
		if err != nil || len(found) == 0 {
			t.Fatalf("no documents in %s: %v", folder, err)
		}
		files = append(files, found...)
	}
	checked := 0
	for _, file := range append(files, "../README.md") {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range yamlBlocks(string(data)) {
			if err := checkExample(t, block); err != nil {
				t.Errorf("%s, YAML example %d (mark it ```yaml ignore if it is no experiment):\n%v", filepath.Base(file), i+1, err)
			}
			checked++
		}
	}
	if checked < 5 {
		t.Errorf("only %d examples found", checked)
	}
}

var fence = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

func yamlBlocks(markdown string) []string {
	var out []string
	for _, m := range fence.FindAllStringSubmatch(markdown, -1) {
		out = append(out, m[1])
	}
	return out
}

func checkExample(t *testing.T, block string) error {
	t.Helper()
	if strings.Contains(block, "kind: GameDay\n") {
		_, err := ParseGameDay("example.yaml", []byte(block), nil)
		return err
	}
	if strings.Contains(block, "apiVersion:") {
		_, err := Parse("example.yaml", []byte(block))
		return err
	}
	var base, sections map[string]any
	if err := yaml.Unmarshal([]byte(good(t)), &base); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(block), &sections); err != nil {
		return err
	}
	for name, section := range sections {
		base[name] = section
	}
	whole, err := yaml.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse("example.yaml", whole)
	return err
}
