package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// The route that the page on schedules shows is one that an Alertmanager takes, and it sends each exported alert of a drill where its severity
// belongs; an alert of somebody else's goes on to the default.
func TestTheRouteOfTheDocsTakesEveryAlertOfADrill(t *testing.T) {
	amtool := tool(t, "amtool")
	page, err := os.ReadFile("../docs/schedules.md")
	testkit.Must(t, err)
	_, block, found := strings.Cut(string(page), "```yaml ignore\nroute:")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/schedules.md shows no route")
	}
	file := filepath.Join(t.TempDir(), "alertmanager.yml")
	testkit.Must(t, os.WriteFile(file, []byte("route:"+block), 0o600))
	ask := func(args ...string) string {
		out, err := exec.Command(amtool, args...).Output()
		if err != nil {
			t.Fatalf("amtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	ask("check-config", file)
	source, _ := deploy.MappingSource("lockcore")
	text, _, err := deploy.Rules(parse(t, "lockcore", string(source)), deploy.RulesForm{})
	testkit.Must(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	testkit.Must(t, yaml.Unmarshal(text, &rules))
	sent := map[string]int{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if !strings.HasPrefix(r.Alert, "LockDrill") {
				continue
			}
			want := map[bool]string{true: "drills-now", false: "drills"}[r.Labels["severity"] == "page"]
			if got := ask("config", "routes", "test", "--config.file="+file, "alertname="+r.Alert, "severity="+r.Labels["severity"], "experiment=x"); got != want {
				t.Errorf("%s, %s, goes to %s, want %s", r.Alert, r.Labels["severity"], got, want)
			}
			sent[want]++
		}
	}
	if got := ask("config", "routes", "test", "--config.file="+file, "alertname=DiskFull", "severity=page"); got != "default" || sent["drills"] == 0 {
		t.Errorf("somebody else's alert goes to %s; of drills were sent %v", got, sent)
	}
}
