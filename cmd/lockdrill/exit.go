package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/experiments/drill"
)

// Exit statuses: a contract with every gate that calls lockdrill.
const (
	exitPass         = 0
	exitFailure      = 1
	exitUsage        = 2
	exitSLOFailed    = 10
	exitInconclusive = 11
	exitAborted      = 12
	exitRefused      = 13
	exitImpossible   = 14
	exitDirty        = 20
)

// exitMeaning is a row of the table: status, its name, and what it says.
type exitMeaning struct {
	code    int
	name    string
	meaning string
}

func exitMeanings() []exitMeaning {
	return []exitMeaning{
		{exitPass, "pass", "every SLO met, evidence sufficient, clean-up verified"},
		{exitFailure, "error", "the tool broke; no verdict"},
		{exitUsage, "usage", "bad flag or file; nothing touched"},
		{exitSLOFailed, "slo-failed", "at least one SLO violated (stays so if the run is aborted later)"},
		{exitInconclusive, "inconclusive", "fault not confirmed, gap, no data, too few trials"},
		{exitAborted, "aborted", "operator, signal or abort condition; clean-up verified"},
		{exitRefused, "refused", "a guard said no before anything was touched"},
		{exitImpossible, "impossible", "tune: no policy can keep what was asked; nothing touched"},
		{exitDirty, "dirty", "clean-up not verified, a fault may be live; wins over all"},
	}
}

// exitName is the name of a status of the contract.
func exitName(code int) string {
	for _, m := range exitMeanings() {
		if m.code == code {
			return m.name
		}
	}
	return "unknown"
}

// worst is the status of several things done in one command. A status outside the contract counts as error.
func worst(codes ...int) int {
	precedence := []int{exitPass, exitUsage, exitImpossible, exitRefused, exitInconclusive, exitAborted, exitSLOFailed, exitFailure, exitDirty}
	rank := 0
	for _, code := range codes {
		r := slices.Index(precedence, code)
		if r < 0 {
			r = slices.Index(precedence, exitFailure)
		}
		rank = max(rank, r)
	}
	return precedence[rank]
}

// exitError carries an exit status up to run. err is printed as one line on stderr; nil = all has been said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitOf is the end of a command that broke off with err, as it stands first in the chain.
func exitOf(err error) *exitError {
	end := &exitError{code: exitFailure, err: err}
	if errors.As(err, &end) {
		return end
	}
	if broke := new(drill.Error); errors.As(err, &broke) {
		return &exitError{code: map[drill.End]int{drill.Usage: exitUsage, drill.Refused: exitRefused, drill.Aborted: exitAborted, drill.Dirty: exitDirty}[broke.End], err: broke.Err}
	}
	return end
}

// codeOf is the status that a command ends with.
func codeOf(err error) int {
	if err == nil {
		return exitPass
	}
	return exitOf(err).code
}

// usagef is a problem of the command line or of a file: nothing was touched.
func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// status is the error that ends a command with a status whose story has been told; nil for a pass.
func status(code int) error {
	if code == exitPass {
		return nil
	}
	return &exitError{code: code}
}

// newExitCodesTopic is a help topic: a command that cannot be run.
func newExitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit statuses of lockdrill:\n\n")
	for _, m := range exitMeanings() {
		fmt.Fprintf(&b, "  %2d  %-12s  %s\n", m.code, m.name, m.meaning)
	}
	b.WriteString(`
Where several apply: 20 > 1 > 10 > 12 > 11 > 13 > 14 > 2 > 0. A run that is not finished is never a pass.
Gates use the built binary: "go run" turns every failing status into 1.
`)
	return &cobra.Command{Use: "exit-codes", Short: "What the exit statuses mean", Long: b.String()}
}

// inconclusiveAs is what an inconclusive run counts as for a gate: fail, pass, or by default itself.
type inconclusiveAs string

func (a *inconclusiveAs) flag(flags *pflag.FlagSet) {
	flags.StringVar((*string)(a), "on-inconclusive", "", "exit status of an inconclusive run: fail (10) or pass (0) instead of 11; the verdict stays")
}

func (a inconclusiveAs) check() error {
	if a != "" && a != "fail" && a != "pass" {
		return usagef("--on-inconclusive %q: want fail or pass", string(a))
	}
	return nil
}

// code is the exit status that a verdict's becomes, said where it is another.
func (a inconclusiveAs) code(stderr io.Writer, code int) int {
	if code != exitInconclusive || a == "" {
		return code
	}
	code = exitPass
	if a == "fail" {
		code = exitSLOFailed
	}
	fmt.Fprintf(stderr, "lockdrill: exit status %d because of --on-inconclusive=%s; the verdict is inconclusive\n", code, a)
	return code
}
