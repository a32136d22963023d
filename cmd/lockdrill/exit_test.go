package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

func TestWorst(t *testing.T) {
	order := []int{exitDirty, exitFailure, exitSLOFailed, exitAborted, exitInconclusive, exitRefused, exitImpossible, exitUsage, exitPass} // the contract
	for i, a := range order {
		for j, b := range order {
			if got, want := worst(a, b), order[min(i, j)]; got != want {
				t.Errorf("worst(%d, %d) = %d, want %d", a, b, got, want)
			}
		}
	}
	if got := worst(); got != exitPass {
		t.Errorf("worst of nothing is %d", got)
	}
	if got := worst(exitPass, 99); got != exitFailure {
		t.Errorf("a status outside the contract counts as %d, want %d", got, exitFailure)
	}
	shuffled := append([]int{}, order[1:]...)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if got := worst(shuffled...); got != exitFailure {
		t.Errorf("worst(%v) = %d, want %d", shuffled, got, exitFailure)
	}
}

// The table is the same in the code, in the help and in the README.
func TestExitCodeTables(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	help := try(t, "help", "exit-codes").stdout
	for _, m := range exitMeanings() {
		if row := fmt.Sprintf("| %d | %s | %s |\n", m.code, m.name, m.meaning); !strings.Contains(string(readme), row) {
			t.Errorf("README.md has no row %q", row)
		}
		if row := fmt.Sprintf("  %2d  %-12s  %s\n", m.code, m.name, m.meaning); !strings.Contains(help, row) {
			t.Errorf("help exit-codes has no row %q", row)
		}
	}
}
