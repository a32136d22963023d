package rehearsal

import (
	"os"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
)

// An etcd that keeps its data is rehearsed as any store. One that loses it counts revisions, and with them fences, from 1: no simulated
// store does that, so nothing is said of it.
func TestAnEtcdWithoutItsDataIsNotRehearsed(t *testing.T) {
	file, err := os.ReadFile("../../experiments/testdata/etcd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for do, want := range map[string]bool{
		"{do: stop_leader}": false, "{do: restart, keep: true}": false, "{do: stop, keep: true}": false, "{do: restart}": true, "{do: stop}": true,
	} {
		e, err := experiments.Parse("etcd.yaml", []byte(strings.Replace(strings.Replace(string(file), "{do: stop_leader}", do, 1), "id: away, at: 20s, for: 4s", way(do), 1)))
		if err != nil {
			t.Fatal(err)
		}
		if why := Unable(e); (why != "") != want || want && !strings.Contains(why, "fault away") {
			t.Errorf("%s: %q", do, why)
		}
	}
}

// way is the fault's beginning: a restart lasts no time.
func way(do string) string {
	if strings.Contains(do, "restart") {
		return "id: away, at: 20s"
	}
	return "id: away, at: 20s, for: 4s"
}
