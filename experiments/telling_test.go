package experiments

import "testing"

// TestTellings: every kind and form of a fault is told, each in its own words.
func TestTellings(t *testing.T) {
	for _, file := range []string{"testdata/faults.yaml", "testdata/pods.yaml", "testdata/observed.yaml"} {
		e, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		does := map[string]string{}
		for i := range e.Faults {
			f := &e.Faults[i]
			tell := e.Tell(f)
			if tell.Does == "" || tell.Confirmed == "" || tell.Undone == "" || f.Whom() == "" {
				t.Errorf("%s (%s %s) is told as %+v", f.ID, f.Kind(), f.Form(), tell)
			}
			if other, ok := does[tell.Does]; ok && f.Pause == nil {
				t.Errorf("%s does the same as %s: %s", f.ID, other, tell.Does)
			}
			does[tell.Does] = f.ID
		}
	}
}
