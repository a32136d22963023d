package drills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// conditionWithin bounds asking one condition.
const conditionWithin = 10 * time.Second

// loud names the first condition that is not quiet, or "". One that cannot be asked is not quiet.
func (k *Keeper) loud(ctx context.Context, p *experiments.Planned) string {
	for i := range p.BlockedBy {
		b := &p.BlockedBy[i]
		ctx, cancel := context.WithTimeout(ctx, conditionWithin)
		why := k.condition(ctx, b)
		cancel()
		if why != "" {
			return cmp.Or(b.Name, b.File, b.URL, "promql") + ": " + why
		}
	}
	return ""
}

// asker follows no address that the schedule does not name.
var asker = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (k *Keeper) condition(ctx context.Context, b *experiments.Condition) string {
	switch {
	case b.File != "":
		if _, err := os.Lstat(b.File); !errors.Is(err, fs.ErrNotExist) {
			return "the file " + b.File + " is there"
		}
	case b.URL != "":
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL, http.NoBody)
		if err != nil {
			return err.Error()
		}
		answer, err := asker.Do(r)
		if err != nil {
			return "it cannot be asked: " + err.Error()
		}
		_ = answer.Body.Close()
		if answer.StatusCode/100 != 2 {
			return "it answers " + answer.Status
		}
	case b.PromQL != nil:
		values, err := k.o.Query(ctx, b.PromQL)
		if err != nil {
			return "it cannot be asked: " + err.Error()
		}
		for _, v := range values {
			if v != 0 {
				return fmt.Sprintf("the query gives %g", v)
			}
		}
	}
	return ""
}
