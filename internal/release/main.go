// Command release writes the SBOM of a Go program: what the linker recorded in it, as CycloneDX 1.6 in JSON. The rest of a release is
// the script build beside it.
//
// Its one invariant: the document's bytes follow from the program alone; it bears neither a time of day nor a serial number.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run prints the SBOM of a program, whose version is given, since the linker calls it (devel).
func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: release PROGRAM VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("read what %s was built from: %w", args[0], err)
	}
	info.Main.Version = args[1]
	main := component(info.Main.Path, info.Main.Version, "")
	main.Type = cdx.ComponentTypeApplication
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	parts := []cdx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		parts = append(parts, component(d.Path, d.Version, d.Sum))
	}
	needs := []string{}
	for _, p := range parts {
		needs = append(needs, p.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// component is a Go module; sum is its line in go.sum, a SHA-256 over the files of its archive.
func component(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == 32 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	return c
}
