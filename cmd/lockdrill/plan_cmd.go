package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// planDoc is the document of `plan -f json`.
type planDoc struct {
	SchemaVersion int    `json:"schemaVersion"`
	File          string `json:"file"`
	Hash          string `json:"hash,omitempty"` // what run --plan takes; only with --hash
	*forecast.Plan
}

func newPlanCmd(io streams) *cobra.Command {
	var c drill.Consent
	cmd := &cobra.Command{
		Use:   "plan FILE|NAME",
		Short: "Show what a run would do, and touch nothing",
		Long: "plan shows the timeline in full: whom each fault strikes, what it does, how it is confirmed and undone. It also shows the guards,\n" +
			"the budget sums, and how long a run takes. It only reads.\n\n" +
			"Exit status 13: a run would be refused, because it cannot reach, may not do or cannot read what it needs. Consent that is not\n" +
			"given yet (--confirm, --environment), the calendar and blocked_by are shown, and do not count. 11: the run could not give an\n" +
			"answer. It does not end within max_run (L10), the faults come when the jobs have ended (L11), the faults cannot provoke what\n" +
			"the file expects, or sources disagree on who holds a lock.\n\n" +
			"--hash names the run by what it does: the resolved file, lockdrill itself, the contents of what the file executes, and the\n" +
			"identity of its targets (the run id of a Redis, the UID of a namespace). lockdrill run --plan HASH runs that and nothing else.",
		Example: "  lockdrill plan first-drill\n  lockdrill plan first-drill --hash",
		Args:    cobra.ExactArgs(1),
	}
	format := documentFlags(cmd, io)
	consentFlags(cmd.Flags(), &c)
	values := setFlag(cmd.Flags())
	verbose := cmd.Flags().Bool("verbose", false, "print as well the policy of each lock in full, with the values that were assumed")
	cmd.ValidArgsFunction = completed(scenarioNames)
	hashed := cmd.Flags().Bool("hash", false, "also print the hash by which the run can be approved")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e, _, err := loadExperiment(args[0], *values...)
		if err != nil {
			return err
		}
		plan, err := drill.Plan(cmd.Context(), e, c, storyFlags{}.notifier(io.Err))
		if err != nil {
			return err
		}
		planRehearsed(cmd.Context(), e, plan)
		var hash string
		if *hashed {
			if hash, err = drill.PlanHash(cmd.Context(), e, c, "lockdrill "+version()); err != nil {
				return err
			}
		}
		d := reports.Plan(plan)
		d.Sections = append(d.Sections, doc.Section{ID: "assumed", Title: "What the file leaves out of policies", Blocks: []doc.Block{{List: assumed(e)}}},
			doc.Section{ID: "run", Title: "To run this", Blocks: []doc.Block{toRun(cmd.Flags(), args[0], plan, hash)}})
		var policies []string
		for i := range e.System.Locks {
			if l := &e.System.Locks[i]; *verbose {
				text, err := lockText(l, "lock "+l.Name)
				if err != nil {
					return err
				}
				policies = append(policies, text)
			}
		}
		if *verbose && *format != outputText {
			d.Sections = append(d.Sections, doc.Section{ID: "policies", Title: "The policy of each lock", Blocks: []doc.Block{{Code: strings.Join(policies, "\n")}}})
		}
		err = present(io, *format, planDoc{1, args[0], hash, plan}, d, doc.Full, doc.Full)
		if *format == outputText && *hashed && err == nil { // a line of its own for scripts
			err = writeLines(io.Out, "\nhash  "+hash)
		}
		if *format == outputText && *verbose && err == nil {
			err = writeText(io.Out, "\n"+strings.Join(policies, "\n"))
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(plan.Guards, func(g drill.Guard) bool { return g.Refuses && !g.Momentary }) {
			return status(verdict.ExitRefused)
		}
		if len(forecast.DeadEnds(plan.Sums)) > 0 || cannotProvoke(plan) ||
			slices.ContainsFunc(plan.Holders, func(h forecast.PlannedHolder) bool { return h.Disputed }) {
			return status(verdict.ExitInconclusive)
		}
		return nil
	}
	return cmd
}

// toRun is the command line that does what a plan shows, with the consent that was given and that is missing. With a hash it does that and
// nothing else; the hash counts the consent too, so where some is missing it is another plan's.
func toRun(flags *pflag.FlagSet, arg string, plan *forecast.Plan, hash string) doc.Block {
	line, missing := typed(arg, given(flags, "set", "confirm", "environment", "kubeconfig", "context", "namespace")), false
	for _, g := range plan.Guards {
		if g.Flag != "" {
			missing = true
			line += " " + strings.Replace(g.Flag, "=", " ", 1)
		}
	}
	switch {
	case hash == "":
		return doc.Block{Code: "lockdrill run " + line}
	case missing:
		return doc.Block{Text: "Consent is missing, and the hash counts it. Give it to plan as well:", Code: "lockdrill plan " + line + " --hash"}
	}
	return doc.Block{Code: "lockdrill run " + line + " --plan " + hash}
}

// plan rehearses a file a few times, which tells what its takeovers take, and whether its faults can provoke what it expects.
const (
	planSeeds  = 5
	planWithin = 10 * time.Second
	// planLongest is how long a drill without expectations may be for that: one of hours would cost seconds and a gigabyte for a few figures.
	planLongest = 30 * time.Minute
)

// planRehearsed notes what rehearsals of e say of its locks and expectations; nothing where it cannot be rehearsed, or takes too long.
func planRehearsed(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) {
	if rehearsal.Unable(e) != "" || len(e.Expect) == 0 && plan.Duration.Expected > planLongest.Seconds() {
		return
	}
	for i := range e.Faults {
		if rehearsal.WhyNot(&e.Faults[i]) != "" {
			return
		}
	}
	ctx, stop := context.WithTimeout(ctx, planWithin)
	defer stop()
	all, err := rehearsal.Many(ctx, rehearsal.RealTime(e), sim.DefaultNet(), planSeeds, nil)
	if err != nil {
		return
	}
	seen := all.Document()
	plan.LockSums, plan.Expected, plan.Rehearsed = seen.Locks, seen.Expected, seen.Seeds
}

// cannotProvoke reports an expectation that no rehearsal met.
func cannotProvoke(plan *forecast.Plan) bool {
	for _, x := range plan.Expected {
		if x.Missed == plan.Rehearsed {
			return true
		}
	}
	return false
}
