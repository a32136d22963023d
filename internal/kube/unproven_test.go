package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A kubeconfig that only a journal names runs no program and reads no file of the caller's; one that the caller uses anyway may.
func TestAnUnprovenKubeconfigRunsNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "own"))
	users := map[string]string{
		"an exec plugin":          "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}",
		"an auth-provider plugin": "auth-provider: {name: oidc}",
		"a tokenFile":             "tokenFile: /etc/hostname",
		"":                        "token: t",
	}
	for what, user := range users {
		text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
			"contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {" + user + "}}]\n"
		for _, name := range []string{"own", "other"} {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		other := filepath.Join(dir, "other")
		_, err := Open(Options{Kubeconfig: other, Unproven: true})
		if what == "" && err != nil || what != "" && (err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "say --kubeconfig "+other)) {
			t.Errorf("%q, named by a journal: %v", what, err)
		}
		if what == "an auth-provider plugin" {
			continue // no such plugin is built in
		}
		for _, o := range []Options{{Kubeconfig: other}, {Kubeconfig: filepath.Join(dir, "own"), Unproven: true}, {Unproven: true}} {
			if _, err := Open(o); err != nil {
				t.Errorf("%q, %+v: %v", what, o, err)
			}
		}
	}
}
