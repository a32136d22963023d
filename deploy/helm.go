package deploy

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// podValues are the fields of a pod that a chart's values may give, each as in a PodSpec.
var podValues = []string{"imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName"}

// chartValues are what a chart takes from its values, and the line of our manifests in which that stands.
var chartValues = []struct {
	name string
	line *regexp.Regexp
}{
	{"image", regexp.MustCompile(`(?m)^( +image: )(.*)$`)},
	{"schedule", regexp.MustCompile(`(?m)^(  schedule: )(.*)$`)},
	{"timeZone", regexp.MustCompile(`(?m)^(  timeZone: )(.*)$`)},
	{"suspend", regexp.MustCompile(`(?m)^(  suspend: )(.*)$`)},
	{"storage", regexp.MustCompile(`(?m)^( +storage: )(.*)$`)},
}

// chartBlocks are the maps that a chart takes from its values, and how far they are indented at least: deeper than others of their name.
var chartBlocks = []struct {
	name   string
	indent int
}{{"annotations", 8}, {"resources", 10}}

// pushgatewayFlag is that of a run, for which a chart has a value.
const pushgatewayFlag = "--pushgateway"

var (
	account  = regexp.MustCompile(`(?m)^( +)serviceAccountName: .*\n`)
	metadata = regexp.MustCompile(`(?m)^metadata:\n  name: .*\n`)
	subject  = regexp.MustCompile(`(?m)^  - kind: ServiceAccount\n    name: .*\n`)
)

// Helm is a chart of the same objects as Kustomize: the texts of its files by their paths. Its templates are those very manifests, with
// what differs from cluster to cluster taken from values, so the two cannot say different things.
func Helm(o KustomizeOptions) (map[string][]byte, error) {
	push := ""
	if i := slices.Index(o.Job.Flags, pushgatewayFlag); i >= 0 {
		push = o.Job.Flags[i+1]
		o.Job.Flags = slices.Delete(slices.Clone(o.Job.Flags), i, i+2)
	}
	base, err := Kustomize(o)
	if err != nil {
		return nil, err
	}
	delete(base, "kustomization.yaml")
	files := map[string][]byte{}
	values := &bytes.Buffer{}
	values.WriteString("# What may differ from cluster to cluster. Everything else follows from the experiment: make the chart anew when that changes.\n" +
		"# image is the runner's; workers that the run makes have kubernetes.image and kubernetes.pod of the experiment.\n")
	if beside := beside(o.Rules); len(beside) > 0 {
		roles, err := role(RoleOptions{Name: RunnerName(o.Job.Experiment), Rules: beside})
		if err != nil {
			return nil, err
		}
		base["permissions-beside.yaml"] = Join(roles[3:]) // behind those of the release's own namespace, which are there
	}
	for name, text := range base {
		files["templates/"+name] = chartTemplate(text)
	}
	for _, v := range chartValues {
		if found := v.line.FindSubmatch(base["drill.yaml"]); found != nil {
			fmt.Fprintf(values, "%s: %s\n", v.name, found[2])
		}
	}
	fmt.Fprintf(values, "\n# URL of a Pushgateway that gets the metrics of each run; its port is let out by the NetworkPolicy.\npushgateway: %q\npushgatewayPort: %d\n",
		push, cmp.Or(urlPort(push), 9091))
	values.WriteString("\n# Of the runner's pod.\n")
	for _, b := range chartBlocks {
		if _, block := lift(string(base["drill.yaml"]), b.name, b.indent); block != "" {
			fmt.Fprintf(values, "%s:\n%s", b.name, block)
		}
	}
	for _, name := range podValues {
		empty := map[string]string{"imagePullSecrets": "[]", "tolerations": "[]", "priorityClassName": `""`}[name]
		if empty == "" {
			empty = "{}"
		}
		fmt.Fprintf(values, "%s: %s\n", name, empty)
	}
	files["values.yaml"] = values.Bytes()
	files["Chart.yaml"] = fmt.Appendf(nil, "# Made by lockdrill export helm.\napiVersion: v2\nname: %s\ndescription: Scheduled drills of the experiment %s\ntype: application\nversion: 0.1.0\n",
		ObjectName(o.Job.Experiment), o.Job.Experiment)
	return files, nil
}

// chartTemplate makes a template of manifests.
func chartTemplate(text []byte) []byte {
	s := strings.ReplaceAll(string(text), "{{", `{{ "{{" }}`)
	docs := strings.Split(s, "\n---\n")
	for i, doc := range docs {
		if strings.Contains(doc, "\nkind: ConfigMap\n") || strings.HasPrefix(doc, "apiVersion: v1\nkind: ConfigMap\n") {
			docs[i] = inNamespace(doc) // the experiment is text, and stays as it is
			continue
		}
		for _, v := range chartValues {
			doc = v.line.ReplaceAllString(doc, "${1}{{ toJson .Values."+v.name+" }}")
		}
		for _, b := range chartBlocks {
			doc, _ = lift(doc, b.name, b.indent)
		}
		doc = pushes(doc)
		doc = account.ReplaceAllStringFunc(doc, func(line string) string {
			pad := line[:strings.Index(line, "s")]
			for _, name := range podValues {
				line += fmt.Sprintf("%s{{- with .Values.%s }}\n%s%s: {{ toJson . }}\n%s{{- end }}\n", pad, name, pad, name, pad)
			}
			return line
		})
		doc = subject.ReplaceAllString(doc, "$0    namespace: {{ toJson .Release.Namespace }}\n")
		docs[i] = inNamespace(doc)
	}
	return []byte(strings.Join(docs, "\n---\n"))
}

// lift has a map come from the value of its name, wherever it is so far indented, and returns what the first one was.
func lift(doc, name string, least int) (lifted, block string) {
	var out []string
	lines := strings.Split(doc, "\n")
	for i := 0; i < len(lines); i++ {
		pad := indentOf(lines[i])
		if pad < least || lines[i][pad:] != name+":" {
			out = append(out, lines[i])
			continue
		}
		out = append(out, lines[i]+" {{ toJson .Values."+name+" }}")
		first := block == ""
		for ; i+1 < len(lines) && indentOf(lines[i+1]) > pad; i++ {
			if first {
				block += lines[i+1][pad:] + "\n"
			}
		}
	}
	return strings.Join(out, "\n"), block
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

var runArgs = regexp.MustCompile(`(?m)^( +)- run\n(?: +- .*\n)*`)

// pushes has a runner push to the Pushgateway of the values, and lets it out to there.
func pushes(doc string) string {
	doc = runArgs.ReplaceAllString(doc, "$0$1{{- with .Values.pushgateway }}\n$1- "+pushgatewayFlag+"\n$1- {{ toJson . }}\n$1{{- end }}\n")
	if strings.Contains(doc, "kind: NetworkPolicy\n") {
		doc = strings.TrimRight(doc, "\n") + "\n    {{- if .Values.pushgateway }}\n    - ports:\n        - protocol: TCP\n          port: {{ .Values.pushgatewayPort }}\n    {{- end }}\n"
	}
	return doc
}

// inNamespace puts an object in the release's namespace.
func inNamespace(doc string) string {
	at := metadata.FindStringIndex(doc)
	if at == nil || strings.HasPrefix(doc[at[1]:], "  namespace: ") {
		return doc
	}
	return doc[:at[1]] + "  namespace: {{ toJson .Release.Namespace }}\n" + doc[at[1]:]
}
