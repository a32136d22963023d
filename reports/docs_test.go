package reports

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/gating.md names every metric with its labels, and every column, and no other.
func TestGatingPageIsWhatIsWritten(t *testing.T) {
	data, err := os.ReadFile("../docs/gating.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string][]string{}
	word := regexp.MustCompile("`([a-z_0-9]+)`")
	for line := range strings.Lines(string(data)) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `lockdrill_") {
			labels := []string{"experiment"}
			for _, m := range word.FindAllStringSubmatch(cells[2], -1) {
				labels = append(labels, m[1])
			}
			slices.Sort(labels)
			for _, m := range word.FindAllStringSubmatch(cells[1], -1) {
				named[m[1]] = labels
			}
		}
	}
	found := map[string]bool{}
	for name := range recordedRuns {
		for _, f := range MetricsOf(recorded(t, name)) {
			found[f.GetName()] = true
			var labels []string
			for _, l := range f.Metric[0].Label {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			if !slices.Equal(labels, named[f.GetName()]) {
				t.Errorf("%s has the labels %v, the page says %v", f.GetName(), labels, named[f.GetName()])
			}
		}
	}
	for name := range named {
		if !found[name] {
			t.Errorf("the page has a %s, no run has", name)
		}
	}

	for format, text := range map[string]string{"csv": written(t, TakeoversCSV, recorded(t, "fail")), "slos-csv": written(t, SLOsCSV, recorded(t, "fail"))} {
		_, row, _ := strings.Cut(string(data), "| `"+format+"` |")
		row, _, _ = strings.Cut(row, "\n")
		var columns []string
		for _, m := range word.FindAllStringSubmatch(row, -1) {
			columns = append(columns, m[1])
		}
		head, _, _ := strings.Cut(text, "\n")
		if got := strings.Join(columns, ","); got != head {
			t.Errorf("%s: the page says %s, the file %s", format, got, head)
		}
	}
}
