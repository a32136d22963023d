// Package golden holds what is made now against golden files that can be reviewed: figures and codes stand in many files, each
// sentence stands in one. It is for tests only, and knows nothing of what it compares. Its one invariant: what is left out of one
// golden file stands in another.
package golden

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Compare holds got against the file, or writes it under update.
func Compare(t testing.TB, path, got string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := string(data); got != want {
		n, g, w := firstDifference(got, want)
		t.Errorf("%s is not what was made now (rewrite it with -update, and read the difference), first in line %d:\n got %s\nwant %s", path, n, g, w)
	}
}

// firstDifference gives the first line, from 1, in which two texts differ, and what stands there.
func firstDifference(got, want string) (n int, g, w string) {
	for n = 1; got != "" || want != ""; n++ {
		g, got, _ = strings.Cut(got, "\n")
		w, want, _ = strings.Cut(want, "\n")
		if g != w {
			break
		}
	}
	return n, g, w
}

// figure is a word with a digit in it: a number, a time, a key, the name of a replica.
var figure = regexp.MustCompile(`[\w#%+./-]*\d(?:[\w#%+./-]*[\w#%])?`)

// Figures is what is left of a text without its words.
func Figures(text string) string { return strings.Join(figure.FindAllString(text, -1), " ") }

// Shape is what is left of a text without its figures, each of which leaves a #.
func Shape(text string) string { return figure.ReplaceAllString(text, "#") }
