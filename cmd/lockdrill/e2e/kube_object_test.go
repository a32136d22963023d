package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	rounds "github.com/lockdrill/lockdrill/internal/poll"
)

// objectNamespace is one of electors, at whose leader an object of another's kind is made.
const objectNamespace = "objects"

var networkChaos = schema.GroupVersionResource{Group: "chaos-mesh.org", Version: "v1alpha1", Resource: "networkchaos"}

// chaosKind is a kind of the name, and of the status, that Chaos Mesh has: without a subresource.
const chaosKind = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: networkchaos.chaos-mesh.org}
spec:
  group: chaos-mesh.org
  scope: Namespaced
  names: {kind: NetworkChaos, listKind: NetworkChaosList, plural: networkchaos, singular: networkchaos}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// chaos is a controller of such objects: as long as there is one, the pod that it selects stands still, and it has a finalizer.
type chaos struct {
	site *site
	api  dynamic.ResourceInterface
}

const chaosFinalizer = "chaos-mesh/records"

// chaosController serves the kind, and keeps its objects in the site's namespace.
func (s *site) chaosController(t *testing.T) *chaos {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Config)
	must(t, err)
	var kind unstructured.Unstructured
	must(t, yaml.Unmarshal([]byte(chaosKind), &kind.Object))
	kinds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := kinds.Create(t.Context(), &kind, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := &chaos{site: s, api: client.Resource(networkChaos).Namespace(s.namespace)}
	until(t, "the kind is served", func() bool {
		_, err := c.api.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-over
		for _, l := range s.Lives() {
			if l.Namespace == s.namespace && l.Ended.IsZero() {
				_ = syscall.Kill(l.PID, syscall.SIGCONT)
			}
		}
	})
	go func() {
		defer close(over)
		for range rounds.Every(ctx, 20*time.Millisecond) {
			if list, err := c.api.List(ctx, metav1.ListOptions{}); err == nil {
				for i := range list.Items {
					c.reconcile(ctx, &list.Items[i])
				}
			}
		}
	}()
	return c
}

// reconcile does for one object what its state asks for; a conflict is another round's.
func (c *chaos) reconcile(ctx context.Context, o *unstructured.Unstructured) {
	held := slices.Contains(o.GetFinalizers(), chaosFinalizer)
	pods, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "selector", "pods", c.site.namespace)
	switch {
	case o.GetDeletionTimestamp() != nil && held:
		c.signal(pods, syscall.SIGCONT)
		o.SetFinalizers(nil)
	case o.GetDeletionTimestamp() == nil && !held:
		o.SetFinalizers([]string{chaosFinalizer})
	case o.GetDeletionTimestamp() == nil && o.Object["status"] == nil && len(pods) > 0:
		c.signal(pods, syscall.SIGSTOP)
		condition := func(kind string) any { return map[string]any{"type": kind, "status": "True"} }
		o.Object["status"] = map[string]any{"conditions": []any{condition("Selected"), condition("AllInjected")}}
	default:
		return
	}
	_, _ = c.api.Update(ctx, o, metav1.UpdateOptions{})
}

func (c *chaos) signal(pods []string, sig syscall.Signal) {
	for _, l := range c.site.Lives() {
		if l.Namespace == c.site.namespace && slices.Contains(pods, l.Pod) && l.Ended.IsZero() && l.PID > 0 {
			_ = syscall.Kill(l.PID, sig)
		}
	}
}

// has are the names of the objects that there are.
func (c *chaos) has(t *testing.T) (names []string) {
	t.Helper()
	list, err := c.api.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, o := range list.Items {
		names = append(names, o.GetName())
	}
	return names
}

// stands are the pods whose process stands still.
func (c *chaos) stands(t *testing.T) (pods []string) {
	t.Helper()
	for _, l := range c.site.Lives() {
		if l.Namespace == c.site.namespace && l.Ended.IsZero() && strings.Contains(string(read(t, fmt.Sprintf("/proc/%d/status", l.PID))), "State:\tT") {
			pods = append(pods, l.Pod)
		}
	}
	return pods
}

// free: nothing is left of any object, and nobody stands.
func (c *chaos) free(t *testing.T) {
	t.Helper()
	if objects, pods := c.has(t), c.stands(t); len(objects)+len(pods) > 0 {
		t.Errorf("objects %q are left, and pods %q stand", objects, pods)
	}
}

// documentedChaos is the drill of docs/kubernetes.md, and the rules of its Role.
func documentedChaos(t *testing.T) (yaml, rules string) {
	t.Helper()
	page := string(read(t, "../../../docs/kubernetes.md"))
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```.*?^```yaml ignore\n(rules:\n.*?)^```").FindStringSubmatch(page[strings.Index(page, "## A fault of Chaos Mesh"):])
	if blocks == nil {
		t.Fatal("docs/kubernetes.md has no drill of Chaos Mesh")
	}
	return blocks[1], blocks[2]
}

// The rules that docs/kubernetes.md shows are those that export rbac prints of the drill above them.
func TestTheDocumentedRoleIsThatOfItsDrill(t *testing.T) {
	yaml, rules := documentedChaos(t)
	dir := folder(t, "partition.yaml", yaml)
	got := tryIn(t, dir, "export", "rbac", "partition.yaml")
	if got.code != verdict.ExitPass || !strings.Contains(got.stdout, "\n"+rules+"---\n") {
		t.Errorf("%+v\nwant the rules\n%s", got, rules)
	}
}

// madeObjects: the documented fault makes its object at the pod of the leader, by the shipped Role and no more; its controller makes the
// fault. Whatever becomes of the runner, the object goes, and with it what its controller did. What is somebody's is not touched.
func madeObjects(t *testing.T, s *site) {
	s.elections(t)
	c := s.chaosController(t)
	documented, _ := documentedChaos(t)
	_, faults, _ := strings.Cut(documented, "faults:\n")
	faults, _, _ = strings.Cut(faults, "probes:\n")
	yaml := edit(t, fmt.Sprintf(electedDrill, s.namespace), "  - {id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}\n", faults, "for: 40s", "for: 12s")
	soon := edit(t, yaml, "for: 6s, timeout: 60s", "for: 500ms, timeout: 60s")
	long := edit(t, soon, "for: 12s", "for: 50s")
	c.refused(t, s, yaml)
	s.shippedRole(t, yaml)
	s.killed(t, long, "object", "injected", func() {
		if objects, pods := c.has(t), c.stands(t); len(objects) != 1 || len(pods) != 1 || objects[0] != "lockdrill-"+pods[0] {
			t.Errorf("before anything is undone there are objects %q, and pods %q stand", objects, pods)
		}
	}, func() {
		c.free(t)
		s.elected(t)
	})
	dir, _ := killAt(t, killable{yaml: long, args: s.flags()}, "object", "intent", true)
	recoverAfter(t, dir)
	nothingIsLeft(t, dir)
	c.free(t)
	s.elected(t)
	o := s.drill(t, yaml, verdict.ExitPass)
	if len(o.j.Faults) != 1 || !o.j.Faults[0].Confirmed || len(o.j.Takeovers) != 1 || o.j.Takeovers[0].Class != "pause" || !strings.Contains(o.text, "made a NetworkChaos on") {
		t.Errorf("faults %+v, takeovers %+v\n%s", o.j.Faults, o.j.Takeovers, o.text)
	}
	c.free(t)
	s.roleFits(t)
}

// refused: what the API server knows of a kind is held against the file before anything is made.
func (c *chaos) refused(t *testing.T, s *site, yaml string) {
	t.Helper()
	wide := edit(t, yaml, "chaos-mesh.org/v1alpha1", "scheduling.k8s.io/v1", "kind: NetworkChaos", "kind: PriorityClass")
	for text, want := range map[string]string{
		edit(t, yaml, "kind: NetworkChaos", "kind: DiskChaos"):                                 "the API server knows no kind DiskChaos of chaos-mesh.org/v1alpha1",
		edit(t, yaml, "chaos-mesh.org/v1alpha1", "chaos-mesh.org/v1"):                          "the API server serves NetworkChaos as chaos-mesh.org/v1alpha1, and not as chaos-mesh.org/v1",
		edit(t, yaml, "      confirm:", "      resource: nets\n      confirm:"):                "the API server calls objects of kind NetworkChaos networkchaos, and the file nets",
		edit(t, yaml, "selector: {app: web}}", "selector: {app: web}, allow: [NetworkChaos]}"): "a NetworkChaos is in a namespace, and no guarded kind: take it out of kubernetes.allow",
		wide: "a PriorityClass is in no namespace, and may reach the whole cluster. If you mean it, say kubernetes: {allow: [PriorityClass]}",
		edit(t, wide, "selector: {app: web}}", "selector: {app: web}, allow: [PriorityClass]}", "name: \"lockdrill-", "namespace: objects, name: \"lockdrill-"): "a PriorityClass is in no namespace: leave metadata.namespace out",
	} {
		o := s.drill(t, text, verdict.ExitRefused)
		if said := strings.Join(strings.Fields(o.text), " "); !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, o.text)
		}
	}
}
