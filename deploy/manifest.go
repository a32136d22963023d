package deploy

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments"
)

// Labels of what lockdrill makes in a cluster.
const (
	NameLabel  = "app.kubernetes.io/name"
	FleetLabel = "lockdrill.dev/fleet" // of workers: whom they join
	RunLabel   = "lockdrill.dev/run"   // of what a run has applied: it may remove it
)

// FilesDir is where pods find the experiment and the files that it names, authorities of certificates among them.
const FilesDir = "/etc/lockdrill"

// Files in FilesDir: the authorities of the stores' certificates.
const (
	RedisCA  = "redis-ca.pem"
	LedgerCA = "ledger-ca.pem"
)

// Certificates is what of a file of certificates gets into a ConfigMap: them alone. The file may be any file, named by mistake, or have a
// private key beside them.
func Certificates(file []byte) ([]byte, error) {
	var out []byte
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
	if out == nil {
		return nil, errors.New("it has no certificate in PEM form")
	}
	return out, nil
}

// meta names an object.
type meta struct {
	Name      string
	Namespace string // "" = that of whoever applies it
	Labels    map[string]string
}

// manifests fills in a template of kube/, and writes each of its objects as a YAML document of its own.
func manifests(name string, fields any) ([][]byte, error) { return podManifests(name, fields, "") }

// podManifests is manifests with a patch over the pods.
func podManifests(name string, fields any, pod experiments.PodPatch) ([][]byte, error) {
	text, err := execute(fields, "kube/"+name+".yaml", "kube/parts.yaml")
	if err != nil {
		return nil, err
	}
	var docs [][]byte
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var n yaml.Node
		if err := d.Decode(&n); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: read what was filled in: %w", name, err)
		}
		if err := layOut(&n); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := patchPod(&n, pod); err != nil {
			return nil, err
		}
		doc, err := encode(&n)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
}

// layOut writes what a template has in one line, or in quotes because it was filled in, as people do. Short lists of plain words stay in
// one line.
func layOut(n *yaml.Node) error {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			return n.Encode(n.Value)
		}
	case yaml.MappingNode:
		if len(n.Content) > 0 {
			n.Style = 0
		}
	case yaml.SequenceNode:
		if slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Kind != yaml.ScalarNode || c.Style&yaml.DoubleQuotedStyle != 0 }) {
			n.Style = 0
		}
	}
	for _, c := range n.Content {
		if err := layOut(c); err != nil {
			return err
		}
	}
	return nil
}

// Join makes one stream of documents.
func Join(docs [][]byte) []byte { return bytes.Join(docs, []byte("---\n")) }

const (
	maxLabel = 63
	maxName  = 46 // of a Deployment: its pods are called name-<10>-<5>, and a host's name has at most 63 letters
)

var (
	notInName  = regexp.MustCompile(`[^a-z0-9-]+`)
	notInLabel = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// ObjectName is the name of a fleet's or an experiment's objects: "lockdrill-" and as much of id as a name of the cluster can hold. Ids
// that differ give names that differ.
func ObjectName(id string) string {
	plain := notInName.ReplaceAllString(strings.ToLower(id), "-")
	name := "lockdrill-" + strings.Trim(plain, "-")
	if plain == id && len(name) <= maxName && strings.Trim(plain, "-") == id {
		return name
	}
	return cut(name, id, maxName)
}

// LabelValue is id, any text, as the value of a label. Ids that differ give values that differ.
func LabelValue(id string) string {
	plain := notInLabel.ReplaceAllString(id, "-")
	if plain == id && len(id) <= maxLabel && strings.Trim(id, "._-") == id {
		return id
	}
	return cut(plain, id, maxLabel)
}

// cut shortens text and ends it with a sum of what it stands for.
func cut(text, id string, most int) string {
	sum := sha256.Sum256([]byte(id))
	tail := "-" + hex.EncodeToString(sum[:4])
	if len(text) > most-len(tail) {
		text = text[:most-len(tail)]
	}
	return strings.TrimLeft(strings.Trim(text, "._-")+tail, "-")
}

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
