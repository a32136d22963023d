package experiments

import (
	"os"
	"strings"
	"testing"
)

// TestDescriptions: every kind and form of a fault is described, each in its own words.
func TestDescriptions(t *testing.T) {
	for _, file := range []string{"testdata/faults.yaml", "testdata/pods.yaml", "testdata/observed.yaml"} {
		e, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		does := map[string]string{}
		for i := range e.Faults {
			f := &e.Faults[i]
			says := e.Describe(f)
			if says.Does == "" || says.Confirmed == "" || says.Undone == "" || f.Aim().InWords() == "" {
				t.Errorf("%s (%s %s) is described as %+v", f.ID, f.Kind(), f.Form(), says)
			}
			if other, ok := does[says.Does]; ok && f.Kind() != "pause" {
				t.Errorf("%s does the same as %s: %s", f.ID, other, says.Does)
			}
			does[says.Does] = f.ID
		}
	}
}

// The pages of replicas may be behind TLS, by an authority of their own: what system.processes.metrics says decides.
func TestTheAuthorityOfReplicasPages(t *testing.T) {
	data, err := os.ReadFile("testdata/bad/told-by.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for scheme, refused := range map[string]bool{"http": true, "https": false} {
		file := strings.NewReplacer("http://127.0.0.1:9100", scheme+"://127.0.0.1:9100", "scrape: replicas", "scrape: replicas, ca: ca.pem").Replace(string(data))
		_, err := Parse("told.yaml", []byte(file))
		if got := err != nil && strings.Contains(err.Error(), "probes.metrics[0].ca: is for https"); got != refused {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
