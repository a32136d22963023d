package experiments

import "testing"

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
