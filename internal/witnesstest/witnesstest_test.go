package witnesstest

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The drills find out each bug that a witness has: the tests know them all.
func TestTheWitnessKnowsItsBugs(t *testing.T) {
	list := exec.Command(Python(t), "-B", "-c", "import scheduler; print(*scheduler.BUGS)")
	list.Dir = Folder()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, Bugs) {
		t.Errorf("scheduler.py has the bugs %v, the tests know %v", got, Bugs)
	}
}

func TestTheWitnessInNodeKnowsItsBugs(t *testing.T) {
	Node(t)
	help, err := exec.Command("node", filepath.Join(Folder(), "scheduler.js"), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	var bugs []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+): `).FindAllStringSubmatch(string(help), -1) {
		bugs = append(bugs, m[1])
	}
	if !slices.Equal(bugs, NodeBugs) {
		t.Errorf("scheduler.js has the bugs %v, the tests know %v", bugs, NodeBugs)
	}
}
