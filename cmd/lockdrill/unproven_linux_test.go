package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A kubeconfig that only a journal names, and that would run a program or send a file, is neither used nor recommended: kubectl would do by
// hand what was refused. So it is with every record that names one, whatever else keeps it from being undone.
func TestAnUnprovenKubeconfigIsNotRecommended(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ran := filepath.Join(base, "ran")
	users := map[string]string{
		"an exec plugin":          "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [" + ran + "], interactiveMode: Never}",
		"an exec plugin ":         "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [" + ran + "]}", // invalid without interactiveMode
		"an auth-provider plugin": "auth-provider: {name: oidc}",
		"a tokenFile":             "tokenFile: /etc/hostname",
		"":                        "token: t",
	}
	kubeconfig := func(name, user string) string {
		return writeFile(t, filepath.Join(base, name), "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n"+
			"contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {"+user+"}}]\n")
	}
	own := kubeconfig("own", "token: t")
	n := 0
	for what, user := range users {
		n++
		config := kubeconfig(fmt.Sprint("config", n), user)
		cluster := &undo.Cluster{Kubeconfig: config, Server: "https://127.0.0.1:2", Namespace: "n", Run: "r", Objects: []undo.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}
		records := []undo.Record{
			{Kind: undo.StandPods, Cluster: cluster},
			{Kind: undo.StandPods, Cluster: &undo.Cluster{Kubeconfig: config, Server: cluster.Server, Namespace: "n", Run: "r", Leases: "lockdrill.r."}},
			{Kind: "network_policy", Cluster: cluster, Cut: &undo.Cut{Policy: "p", Pod: "p", UID: "u"}},
			{Kind: "node", Cluster: cluster, Node: &undo.Node{Name: "n", UID: "u"}},
			{Kind: "from the future", Cluster: cluster},
		}
		dir := filepath.Join(base, fmt.Sprint("run", n))
		_ = testkit.LeftBy(t, dir, undo.Header{Run: "r", Runner: testkit.Dead(t)}, records...).Close() // it is not undone
		elsewhere := filepath.Join(base, fmt.Sprint("elsewhere", n))
		_ = testkit.LeftBy(t, elsewhere, undo.Header{Run: "r", Runner: testkit.Dead(t), Hostname: "another"}, undo.Record{Kind: undo.StandPods, Cluster: cluster, Process: &undo.Process{PID: 1}}).Close()

		what = strings.TrimSpace(what)
		told := func(by, said string, count int) {
			t.Helper()
			refused, byHand := strings.Count(said, "refused: kubeconfig settings: "+config+" has "+what+", and only a journal names it"), strings.Count(said, "kubectl --kubeconfig "+config)
			if what != "" && (refused != count || byHand > 0) || what == "" && (refused > 0 || byHand < count) {
				t.Errorf("%q, %s: %d refused, %d recommended, of %d\n%s", what, by, refused, byHand, count, said)
			}
		}
		got := try(t, "recover", dir)
		told("recover", got.stdout, len(records))
		if got.code != verdict.ExitDirty {
			t.Errorf("%q: %+v", what, got)
		}
		told("recover elsewhere", try(t, "recover", elsewhere).stdout, 1)
		if what == "an exec plugin" {
			told("the watchdog", watchdogOf(t, elsewhere), 3) // as often as it tries
		}
		if said := try(t, "recover", dir, "--kubeconfig", own).stdout; strings.Contains(said, config) || strings.Count(said, "kubectl --kubeconfig "+own) < len(records) {
			t.Errorf("%q, with a kubeconfig of the caller's:\n%s", what, said)
		}
	}
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the plugin was run (%v)", err)
	}
}

// watchdogOf is what the watchdog of a run says whose runner is dead.
func watchdogOf(t *testing.T, dir string) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := lockdrill("watchdog", dir)
	cmd.ExtraFiles = []*os.File{read}
	got := finish(t, t.TempDir(), cmd)
	if got.code != verdict.ExitDirty {
		t.Errorf("%s: %+v", drill.WatchdogLog, got)
	}
	return got.stderr
}
