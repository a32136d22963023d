package draft

import "testing"

func TestALongKeyIsNamedByItsLastWords(t *testing.T) {
	for key, want := range map[string]string{
		"cordum:reconciler:default":                                    "cordum-reconciler-default",
		"cordum:workflow-engine:reconciler:default":                    "workflow-engine-reconciler-default",
		"team:billing-invoices-reconciler-of-the-month:leader":         "invoices-reconciler-of-the-month-leader",
		"x-0123456789-0123456789-0123456789-012345":                    "0123456789-0123456789-0123456789-012345",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		":::": "lock",
	} {
		if got := NameOf(key); got != want {
			t.Errorf("%s is named %s, want %s", key, got, want)
		}
	}
}
