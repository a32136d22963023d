package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// audited are the whole lines of the audit log, which may be written to.
func audited(t *testing.T, e *kubetest.Env) []byte {
	t.Helper()
	log := read(t, e.AuditLog)
	return log[:bytes.LastIndexByte(log, '\n')+1]
}

// auditedUntil is the place that the audit log has reached, if there is one.
func auditedUntil(t *testing.T, e *kubetest.Env) int64 {
	t.Helper()
	if e.AuditLog == "" {
		return 0
	}
	return int64(len(audited(t, e)))
}

// apiRequest is a kind of request: what is group/resource/subresource, "core" the unnamed group; name "" = of none, or not told.
type apiRequest struct{ verb, what, namespace, name string }

// requestsSince are the requests of a service account (namespace:name) from a place of the audit log on, and those that were refused.
func requestsSince(t *testing.T, e *kubetest.Env, from int64, account string) (all, forbidden []apiRequest) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(audited(t, e)[from:]))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var said struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      *struct{ Resource, Subresource, APIGroup, Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		must(t, json.Unmarshal(lines.Bytes(), &said))
		o := said.ObjectRef
		if said.User.Username != "system:serviceaccount:"+account || o == nil {
			continue
		}
		asked := []apiRequest{{said.Verb, o.APIGroup + "/" + strings.TrimSuffix(o.Resource+"/"+o.Subresource, "/"), o.Namespace, o.Name}}
		if o.APIGroup == "" {
			asked[0].what = "core" + asked[0].what
		}
		// Two requests that need a second verb: a server-side apply of what was not there, and a command by WebSockets, which are a GET,
		// before whose upgrade the API server asks for create as well (since v1.35).
		if said.Verb == "patch" && said.ResponseStatus.Code == 201 || said.Verb == "get" && o.Subresource == "exec" {
			second := asked[0]
			second.verb = "create"
			asked = append(asked, second)
		}
		if all = append(all, asked...); said.ResponseStatus.Code == 403 {
			forbidden = append(forbidden, asked[0])
		}
	}
	return all, forbidden
}

// usedAsPermitted holds what the account of a kubeconfig may do in its namespace, and in those beside it, against what it has asked for since: it
// was refused nothing, and has no permission for which it had no use.
func usedAsPermitted(t *testing.T, e *kubetest.Env, from int64, kubeconfig, account string, namespaces ...string) {
	t.Helper()
	all, forbidden := requestsSince(t, e, from, namespaces[0]+":"+account)
	if len(all) == 0 || len(forbidden) > 0 {
		t.Errorf("of %d requests these were refused: %v", len(all), forbidden)
	}
	used := 0
	for _, in := range namespaces {
		anybody := canI(t, e.KubeconfigForServiceAccount(in, "default"), in)
		for p := range canI(t, kubeconfig, in) {
			if anybody[p] {
				continue
			}
			words := append(strings.Fields(p), "") // verb, what, and the names if it is bound to some
			for name := range strings.SplitSeq(words[2], ",") {
				use := func(r apiRequest) bool {
					return r.verb == words[0] && r.what == words[1] && (r.namespace == in || r.namespace == "") && (name == "" || r.name == name)
				}
				if !slices.ContainsFunc(all, use) {
					t.Errorf("in namespace %s the account may %s, and the run never asked for it (%q)", in, p, name)
				}
				used++
			}
		}
	}
	t.Logf("%d requests, %d permissions", len(all), used)
}

// permission is one verb of one resource.
func permission(verb, group, resource string, names []string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", verb, cmp.Or(group, "core"), resource, strings.Join(slices.Sorted(slices.Values(names)), ",")))
}

// canI is what kubectl auth can-i --list says of resources to the user of a kubeconfig.
func canI(t *testing.T, kubeconfig, namespace string) map[string]bool {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authv1.SelfSubjectRulesReview{Spec: authv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil || review.Status.Incomplete {
		t.Fatalf("%+v, %v", review, err)
	}
	all := map[string]bool{}
	for _, r := range review.Status.ResourceRules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					all[permission(verb, group, resource, r.ResourceNames)] = true
				}
			}
		}
	}
	return all
}
