package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/lockdrill/lockdrill/lockcore"
)

//go:embed profiles/*/*.yaml
var profileFiles embed.FS

// profileFile is a shipped profile as it is spelled: data, not code.
type profileFile struct {
	Description string
	Key         string // leader loops
	KeyPrefix   string // locks taken per job
	Policy      lockcore.Policy
}

// Profile gives the lock that a shipped profile describes, without a name of its own.
func Profile(name string) (*Lock, error) {
	data, err := profileFiles.ReadFile("profiles/" + name + ".yaml") // embedded: the only error is that it is not there
	if err != nil {
		return nil, fmt.Errorf("unknown profile %s", unknownWord(name, ProfileNames()))
	}
	var p profileFile
	c := newCollector(name, data)
	if root := c.read(data); root != nil {
		(&decoder{collector: c}).value("", nil, root, settable(&p), rule{})
	}
	if err := c.problems(); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	normalise(&p.Policy)
	return &Lock{Profile: name, Key: p.Key, KeyPrefix: p.KeyPrefix, Policy: p.Policy}, nil
}

// ProfileNames lists the shipped profiles, such as cordum/scheduler-job, in alphabetical order.
func ProfileNames() []string {
	files, err := fs.Glob(profileFiles, "profiles/*/*.yaml")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(f, "profiles/"), ".yaml")
	}
	return files
}
