package experiments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseSchedule(t *testing.T) {
	const file = "testdata/schedules/good.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSchedule(file, data)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Drills) != 3 || len(s.Notices) != 3 || s.FreezeFile != filepath.Join(filepath.Dir(file), "freeze") {
		t.Errorf("read %+v", s)
	}
	if d := s.Drills[0]; d.Wait != 30*time.Minute || d.Overlap != OverlapQueue || d.BlockedBy[2].File != filepath.Join(filepath.Dir(file), "maintenance") {
		t.Errorf("the first drill is %+v", d)
	}
	if d := s.Drills[1]; d.Wait != 10*time.Minute || d.Overlap != OverlapSkip || d.ApprovalFor != 48*time.Hour || d.Between.From != "09:00" {
		t.Errorf("the second drill is %+v", d)
	}
	schema, err := ScheduleSchema()
	if problem, ok := against(t, compiled(t, schema, err), data); !ok || problem != nil {
		t.Errorf("the schema does not take it: %v", problem)
	}
}

func TestTheScheduleOfTheDocumentIsOne(t *testing.T) {
	text, err := os.ReadFile("../docs/schedules.md")
	_, after, ok := strings.Cut(string(text), "```yaml ignore\n")
	block, _, _ := strings.Cut(after, "```")
	if err != nil || !ok {
		t.Fatal("no schedule in docs/schedules.md", err)
	}
	if s, err := ParseSchedule("schedule.yaml", []byte(block)); err != nil || len(s.Drills) != 3 {
		t.Errorf("%v", err)
	}
}

// Each message has its place, and none a secret.
func TestBadSchedules(t *testing.T) {
	badFiles(t, "schedules", 3, func(file string, data []byte) error { _, err := ParseSchedule(file, data); return err })
}
