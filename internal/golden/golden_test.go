package golden

import (
	"slices"
	"testing"
)

func TestFiguresAndShape(t *testing.T) {
	const text = "job j8 was finished by epoch r1.2/3 at T+2.5s, in [1.5, 2]ms: 40% of kill-leader#1."
	if got, want := Figures(text), "j8 r1.2/3 T+2.5s 1.5 2 40% kill-leader#1"; got != want {
		t.Errorf("figures %q, want %q", got, want)
	}
	if got, want := Shape(text), "job # was finished by epoch # at #, in [#, #]ms: # of #."; got != want {
		t.Errorf("shape %q, want %q", got, want)
	}
}

func TestVerdictKeepsEveryFigureAndSaysEachSentence(t *testing.T) {
	var said []string
	got, err := Verdict([]byte(`{"verdict":"pass","lacks":[],"slos":[{"why":"2 kills, worst 3s","next":"","lo":0,"hi":null,"lacks":[{"why":"no kill hit"}],"evidence":[4,5]}],
		"run":{"steady":false,"seconds":80.40},"warnings":["look at 7","again 8"]}`), func(field, sentence string) { said = append(said, field+": "+sentence) })
	if err != nil {
		t.Fatal(err)
	}
	want := "run {seconds=80.40 steady=false}\nslos\n  {evidence=[4 5] hi=null lacks=[{}] lo=0 why=2 3s}\nverdict pass\nwarnings\n  7\n  8\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	slices.Sort(said)
	if want := []string{"slos.lacks.why: no kill hit", "slos.why: 2 kills, worst 3s", "warnings: again 8", "warnings: look at 7"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if _, err := Verdict([]byte("no"), nil); err == nil {
		t.Error("what is no verdict is taken")
	}
}

func TestSentencesAreWrittenOnce(t *testing.T) {
	s := Sentences{}
	s.Say("slos.why b", "3 kills")
	s.Say("slos.why a", "12 kills")
	s.Say("slos.why a", "2 kills")
	s.Say("next a", "2 kills")
	s.Say("next a", "do it")
	if got, want := s.String(), "# kills\n    next: a\n    slos.why: a*2 b\ndo it\n    next: a\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestABookSaysALongLineOnce(t *testing.T) {
	var b Book
	b.Add("one", "# Faults\n- kill-1 hit the holder of j7 at 3s\n")
	b.Add("two", "# Faults\n- kill-2 hit the holder of j8 at 4s\n- nobody else wanted the key\n")
	want := "=== one\n# Faults\n- kill-1 hit the holder of j7 at 3s\n=== two\n# Faults\n= - kill-2 ... j8 4s\n- nobody else wanted the key\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestCodedLeavesNoSentence(t *testing.T) {
	got, err := Coded([]byte(`{"slos":[{"why":"2 kills, worst 3s","lock":"a lock","next":"","lacks":[{"next":"wait 4s"}]}],"warnings":["look at 7"]}`))
	if want := `{"slos":[{"lacks":[{"next":"next(4s)"}],"lock":"a lock","next":"","why":"why(2 3s)"}],"warnings":["warnings(7)"]}`; err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}
