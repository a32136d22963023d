package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/lockdrill/lockdrill/internal/vocab"
	"github.com/lockdrill/lockdrill/lockcore"
)

//go:embed profiles/*/*.yaml
var profileFiles embed.FS

// profileFile is a shipped profile as it is spelled: data, not code.
type profileFile struct {
	Description string
	Key         string          // leader loops
	KeyPrefix   string          // locks taken per job
	Fenced      bool            `rule:"default=true"` // the ledger compares fences of what is written under the lock
	Policy      lockcore.Policy `rule:"required"`
	Errors      LockErrors      // what the real lock's callers read
	Beyond      []string        // what of the real lock a policy cannot say, a sentence each
}

// LockErrors are the texts of a real lock's errors; "" = none is published.
type LockErrors struct {
	Busy      string // of an acquire whose wait is over
	Abandoned string // with which the work is ended when the lock is given up
	NoToken   string // of a release without a token
}

// Errors are the texts that the errors of the lock's profile have.
func (l *Lock) Errors() LockErrors {
	if p, err := readProfile(l.Profile); err == nil {
		return p.Errors
	}
	return LockErrors{}
}

// Profile gives the lock that a shipped profile describes, without a name of its own.
func Profile(name string) (*Lock, error) {
	p, err := readProfile(name)
	if err != nil {
		return nil, err
	}
	return &Lock{Profile: name, Key: p.Key, KeyPrefix: p.KeyPrefix, Policy: p.Policy, Unfenced: !p.Fenced, Beyond: p.Beyond}, nil
}

func readProfile(name string) (p profileFile, err error) {
	data, err := profileFiles.ReadFile("profiles/" + name + ".yaml") // embedded: the only error is that it is not there
	if err != nil {
		return p, fmt.Errorf("unknown profile %s", vocab.UnknownWord(name, ProfileNames()))
	}
	f := vocabulary.Open(name, data, false)
	f.Decode(&p)
	if err := f.Err(); err != nil {
		return p, fmt.Errorf("profile %s: %w", name, err)
	}
	(&assumed{Policy: &p.Policy}).fill()
	return p, nil
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
