package vocab

import (
	"fmt"
	"strings"
)

// UnknownWord says that word is none of known: which one was probably meant, or which there are.
func UnknownWord(word string, known []string) string {
	if meant := Nearest(word, known); meant != "" {
		return fmt.Sprintf("%q: did you mean %q?", word, meant)
	}
	if len(known) == 0 {
		return fmt.Sprintf("%q: there is none", word)
	}
	if len(known) == 1 {
		return fmt.Sprintf("%q: there is only %s", word, known[0])
	}
	return fmt.Sprintf("%q: there are %s", word, strings.Join(known, ", "))
}

// Nearest is the known word that is nearest to word, or "" where none is near.
func Nearest(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the least number of insertions, deletions, replacements and swaps of neighbours that make a into b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
