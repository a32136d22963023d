package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// The table is the same in the code, in the help and in the README.
func TestExitCodeTables(t *testing.T) {
	t.Parallel()
	readme := read(t, "../../README.md")
	help := try(t, "help", "exit-codes").stdout
	for _, m := range verdict.Exits() {
		if row := fmt.Sprintf("| %d | %s | %s |\n", m.Code, m.Name, m.Meaning); !strings.Contains(string(readme), row) {
			t.Errorf("README.md has no row %q", row)
		}
		if row := fmt.Sprintf("  %2d  %-12s  %s\n", m.Code, m.Name, m.Meaning); !strings.Contains(help, row) {
			t.Errorf("help exit-codes has no row %q", row)
		}
	}
}
