package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/undo"
)

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
	end := &exitError{code: verdict.ExitError, err: err}
	if errors.As(err, &end) {
		return end
	}
	if broke := new(drill.Error); errors.As(err, &broke) {
		return &exitError{code: broke.Status, err: broke.Err}
	}
	return end
}

// consenting is args again with the words that meet what a refusal asks of the operator; "" where it asks for none.
func consenting(err error, args []string) string {
	no := new(drill.Refusal)
	if !errors.As(err, &no) || len(no.Flags()) == 0 {
		return ""
	}
	at := slices.Index(args, "--") // what follows is a worker's
	if at < 0 {
		at = len(args)
	}
	return "\nTo consent to what the drill would touch: " + typed("lockdrill", slices.Concat(args[:at], no.Flags(), args[at:]))
}

// typed is a command line as one types it.
func typed(first string, more []string) string {
	line := undo.Quote(first)
	for _, word := range more {
		line += " " + undo.Quote(word)
	}
	return line
}

// codeOf is the status that a command ends with.
func codeOf(err error) int {
	if err == nil {
		return verdict.ExitPass
	}
	return exitOf(err).code
}

// usagef is a problem of the command line or of a file: nothing was touched.
func usagef(format string, args ...any) error {
	return &exitError{code: verdict.ExitUsage, err: fmt.Errorf(format, args...)}
}

// status is the error that ends a command with a status whose story has been told; nil for a pass.
func status(code int) error {
	if code == verdict.ExitPass {
		return nil
	}
	return &exitError{code: code}
}

// newExitCodesTopic is a help topic: a command that cannot be run.
func newExitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit statuses of lockdrill:\n\n")
	for _, e := range verdict.Exits() {
		fmt.Fprintf(&b, "  %2d  %-12s  %s\n", e.Code, e.Name, e.Meaning)
	}
	fmt.Fprintf(&b, "\nWhere several apply: %s. A run that is not finished is never a pass.\n", strings.ReplaceAll(strings.Trim(fmt.Sprint(verdict.ExitPrecedence()), "[]"), " ", " > "))
	b.WriteString(`Gates use the built binary: "go run" turns every failing status into 1.
`)
	return &cobra.Command{Use: "exit-codes", Short: "List the exit statuses and their meaning", Long: b.String()}
}

// gated are the flags of a command whose status a gate reads.
type gated struct {
	result         resultFile
	onInconclusive inconclusiveAs
}

func (g *gated) flags(flags *pflag.FlagSet) {
	g.result.flag(flags)
	g.onInconclusive.flag(flags)
}

// run is the command between the claim of its result file and the word that this file gets. do gives the status of a verdict.
func (g *gated) run(cmd *cobra.Command, stderr io.Writer, do func() (int, error)) error {
	if err := g.onInconclusive.check(); err != nil {
		return err
	}
	if err := errors.Join(namesNothing(cmd), g.result.claim()); err != nil {
		return err
	}
	code, err := do()
	g.result.write(stderr, cmp.Or(codeOf(err), code))
	if err != nil {
		return err
	}
	return status(g.onInconclusive.code(stderr, code))
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
	if code != verdict.ExitInconclusive || a == "" {
		return code
	}
	code = verdict.ExitPass
	if a == "fail" {
		code = verdict.ExitSLOFailed
	}
	fmt.Fprintf(stderr, "lockdrill: exit status %d because of --on-inconclusive=%s; the verdict is inconclusive\n", code, a)
	return code
}
