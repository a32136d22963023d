// Package deploy holds what surrounds drills where locks run and software is released: rules and a dashboard for the locks' metrics,
// steps of CI systems that gate on a drill, and the manifests of a drill in a cluster. It is templates and what fills them in; it reads
// no file, writes none and starts nothing. Its one invariant: what it cannot fill in is left out and named, so that no rule, panel or
// step is exported that could never say anything.
package deploy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed rules.yaml panels.yaml metrics ci kube
var files embed.FS

// Dropped is a rule or a panel that is not exported, and the signals that the mapping lacks for it.
type Dropped struct {
	Name  string   // of the rule, or "panel TITLE"
	Needs []string // names of signals
}

func (d Dropped) String() string {
	return fmt.Sprintf("%s is left out: the mapping has no %s", d.Name, strings.Join(d.Needs, ", no "))
}

// decode reads strict YAML of one document into v.
func decode(data []byte, v any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return nil
}

// shipped reads an embedded file; one that cannot be read is our own mistake, and the tests read every one.
func shipped(name string, v any) {
	data, err := files.ReadFile(name)
	if err == nil {
		err = decode(data, v)
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
}

// encode writes YAML as people indent it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), nil
}
