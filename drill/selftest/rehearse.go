package selftest

import (
	"context"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// Rehearsed plays cases in virtual time, with the seeds from 1 on.
type Rehearsed struct{ Seeds int64 }

// Play implements Player.
func (r Rehearsed) Play(ctx context.Context, c *Case, e *experiments.Experiment) ([]*verdict.Judgement, error) {
	a, _ := mutants.Find(c.Animal)
	of, judger := rehearsal.Of(e, sim.DefaultNet(), rehearsal.Subject{Variant: a.Variant, Work: a.Work, Tell: a.Tell}), analysis.NewJudger(e)
	var js []*verdict.Judgement
	for seed := int64(1); seed <= r.Seeds; seed++ {
		d, err := of.Run(ctx, seed)
		if err != nil {
			return nil, err
		}
		h := d.History
		if c.Scene.Tells {
			h = told(h, a.Edit)
		}
		js = append(js, judger.Judge(h))
	}
	return js, nil
}
