package undo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A journal is believed only where nobody but the caller or root can have written it, and where no link leads to it.
func TestWhoseJournalIsBelieved(t *testing.T) {
	const stranger = 54321
	for _, c := range []struct {
		name string
		do   func(dir string) (at string, err error)
		want string // "" = it is believed
		root bool   // only root can make it so
	}{
		{name: "as lockdrill makes it", do: func(dir string) (string, error) { return dir, nil }},
		{name: "a folder for everybody", do: func(dir string) (string, error) { return dir, os.Chmod(dir, 0o777) }, want: "everybody may write to the folder"},
		{name: "a sticky folder for everybody", do: func(dir string) (string, error) { return dir, os.Chmod(dir, 0o777|os.ModeSticky) }, want: "everybody may write to the folder"},
		{name: "a journal for everybody", do: func(dir string) (string, error) { return dir, os.Chmod(filepath.Join(dir, File), 0o666) }, want: "everybody may write to the journal"},
		{name: "a group of the caller's own", do: func(dir string) (string, error) {
			return dir, errors.Join(os.Chown(dir, -1, os.Getegid()), os.Chmod(dir, 0o775))
		}, root: true},
		{name: "another group", do: func(dir string) (string, error) {
			return dir, errors.Join(os.Chown(dir, -1, stranger), os.Chmod(dir, 0o775))
		}, want: "group 54321 may write to the folder", root: true},
		{name: "another's folder", do: func(dir string) (string, error) { return dir, os.Chown(dir, stranger, -1) }, want: "the folder belongs to user 54321", root: true},
		{name: "another's journal", do: func(dir string) (string, error) { return dir, os.Chown(filepath.Join(dir, File), stranger, -1) }, want: "the journal belongs to user 54321", root: true},
		{name: "an experiment for everybody", do: func(dir string) (string, error) {
			return dir, errors.Join(os.WriteFile(filepath.Join(dir, experimentFile), nil, 0o600), os.Chmod(filepath.Join(dir, experimentFile), 0o666))
		}, want: "everybody may write to the experiment"},
		{name: "another's experiment", do: func(dir string) (string, error) {
			return dir, errors.Join(os.WriteFile(filepath.Join(dir, experimentFile), nil, 0o600), os.Chown(filepath.Join(dir, experimentFile), stranger, -1))
		}, want: "the experiment belongs to user 54321", root: true},
		{name: "a link to the experiment", do: func(dir string) (string, error) {
			return dir, os.Symlink(File, filepath.Join(dir, experimentFile))
		}, want: "the experiment is a link"},
		{name: "a link to the journal", do: func(dir string) (string, error) {
			to := filepath.Join(dir, "elsewhere")
			return dir, errors.Join(os.Rename(filepath.Join(dir, File), to), os.Symlink(to, filepath.Join(dir, File)))
		}, want: "the journal is a link"},
		{name: "a link to the folder", do: func(dir string) (string, error) { return dir + "-link", os.Symlink(dir, dir+"-link") }, want: "reached by a link"},
		{name: "the newest run", do: func(dir string) (string, error) {
			link := filepath.Join(filepath.Dir(dir), Latest)
			return link, os.Symlink(filepath.Base(dir), link)
		}},
		{name: "the newest run of another place", do: func(dir string) (string, error) {
			link := filepath.Join(filepath.Dir(dir), Latest)
			return link, os.Symlink(dir, link)
		}, want: "reached by a link"},
		{name: "the caller's link on the way", do: func(dir string) (string, error) {
			link := filepath.Dir(dir) + "-link"
			return filepath.Join(link, "run"), os.Symlink(filepath.Dir(dir), link)
		}},
		{name: "another's link on the way", do: func(dir string) (string, error) {
			link := filepath.Dir(dir) + "-link"
			return filepath.Join(link, "run"), errors.Join(os.Symlink(filepath.Dir(dir), link), os.Lchown(link, stranger, -1))
		}, want: "somebody else's link", root: true},
	} {
		if c.root && os.Geteuid() != 0 {
			t.Logf("%s: only root can make it so", c.name)
			continue
		}
		base := filepath.Join(t.TempDir(), "runs")
		dir := filepath.Join(base, "run")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		j, err := Create(filepath.Join(dir, File), Header{Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		at, err := c.do(dir)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		f, err := Open(at, false)
		if err == nil {
			_ = f.Close()
		}
		if said := new(UntrustedError); c.want == "" && err != nil || c.want != "" && (!errors.As(err, &said) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if f, err = Open(at, true); err != nil {
			t.Errorf("%s: with trust: %v", c.name, err)
		} else {
			_ = f.Close()
		}
	}
}

// A group that others are in is not the caller's own.
func TestAGroupThatOthersAreIn(t *testing.T) {
	if who := sharedWith(os.Getegid()); who != "" && os.Geteuid() == 0 {
		t.Errorf("root's group: %s", who)
	}
	if who := sharedWith(54321); who == "" {
		t.Error("a group that the caller is not in is said to be its own")
	}
}
