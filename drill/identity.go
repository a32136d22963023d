package drill

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// identity is what somebody approves who approves a run: what is done, by which code, to whom. It says nothing of who holds what now.
type identity struct {
	Tool       string
	Program    string // sum of the running binary
	Experiment string // sum of the resolved file
	Consent    Consent
	Commands   [][]word
	Targets    []string
}

// word is one word of a command; Sum is that of the file that it names, if it names one.
type word struct{ Word, Sum string }

// PlanHash names a run by what it does: the resolved file, the tool, the contents of all that it executes, and the identity of its
// targets. It only reads. Whoever approved the hash has approved no other run.
func PlanHash(ctx context.Context, e *experiments.Experiment, c Consent, tool string) (string, error) {
	cluster, err := c.Cluster.open(e)
	if err != nil {
		return "", err
	}
	if err := placeCommands(e); err != nil {
		return "", err
	}
	resolved, err := experiments.Marshal(e)
	if err != nil {
		return "", err
	}
	id := identity{Tool: tool, Experiment: experiments.Digest(resolved), Consent: c}
	id.Consent.Summary = ""            // where word is left is nothing of what is done
	id.Consent.Cluster.Kubeconfig = "" // how the cluster is reached; which one it is, it says itself
	self, err := os.Executable()
	if err == nil {
		id.Program, err = sumOf(self)
	}
	if err != nil {
		return "", fmt.Errorf("read the own binary: %w", err)
	}
	for _, line := range executed(e) {
		words, err := wordsOf(line.words, line.dir)
		if err != nil {
			return "", usagef("%s: %w", e.Name, err)
		}
		id.Commands = append(id.Commands, words)
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	for _, r := range externals(e) {
		run, err := redis.RunID(ctx, r)
		if err != nil {
			return "", usagef("%s: %s: %w", e.Name, r.Target(), err)
		}
		id.Targets = append(id.Targets, "redis "+run)
	}
	if cluster != nil {
		for _, one := range cluster.Each() {
			uid, err := one.NamespaceUID(ctx)
			if err != nil {
				return "", usagef("%s: %w", e.Name, err)
			}
			id.Targets = append(id.Targets, "namespace "+uid)
		}
	}
	text, err := json.Marshal(id)
	if err != nil {
		return "", err
	}
	return experiments.Digest(text), nil
}

// AsApproved refuses a run that is another than the one of the hash.
func AsApproved(ctx context.Context, e *experiments.Experiment, c Consent, tool, approved string) error {
	is, err := PlanHash(ctx, e, c, tool)
	if err != nil || is == approved {
		return err
	}
	return refused(e.Name, Guard{Name: planGuardName, Refuses: true, Says: fmt.Sprintf("the approved plan is %s, and this is %s: the file, what it executes, the target or lockdrill was changed since", approved, is)})
}

type executedLine struct {
	words []string
	dir   string // where it is run
}

// executed are the commands of an experiment's own, in the order of the file.
func executed(e *experiments.Experiment) []executedLine {
	var all []executedLine
	add := func(words []string, dir string) {
		if len(words) > 0 {
			all = append(all, executedLine{words, dir})
		}
	}
	add(e.System.Worker, "")
	if p := e.System.Processes; p != nil {
		add(p.Command, "")
	}
	for _, h := range e.System.Holder {
		if h.Command != nil {
			add(h.Command.Run, "")
		}
	}
	for i := range e.System.Effects {
		add(e.System.Effects[i].Command, "")
	}
	for i := range e.Faults {
		if c, ok := e.Faults[i].Spec.(fault.Commanding); ok {
			for _, list := range [][]string{c.Runs().Do, c.Runs().Confirm, c.Runs().Undo} {
				add(list, c.Runs().Dir)
			}
		}
	}
	return all
}

// wordsOf finds the files that a command names: its program, and each argument that is a file.
func wordsOf(command []string, dir string) ([]word, error) {
	var all []word
	for i, text := range command {
		path := text
		if i == 0 && !strings.ContainsRune(text, filepath.Separator) {
			found, err := exec.LookPath(text)
			if err != nil {
				return nil, err
			}
			path = found
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmp.Or(dir, "."), path)
		}
		w := word{Word: text}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if w.Sum, err = sumOf(path); err != nil {
				return nil, fmt.Errorf("read %s, which the run executes: %w", path, err)
			}
		}
		all = append(all, w)
	}
	return all, nil
}

// sumOf is the sum of a file's contents.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return fmt.Sprintf("%x", sum.Sum(nil)), errors.Join(err, f.Close())
}
