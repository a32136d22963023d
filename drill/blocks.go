package drill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/probes"
)

// blockWithin bounds asking one block: an answer that comes later is none.
const blockWithin = 10 * time.Second

// blockGuard refuses while something is going on that a drill must not add to. What cannot be asked may be going on.
func blockGuard(ctx context.Context, e *experiments.Experiment) (Guard, error) {
	g := Guard{Name: blockGuardName, Momentary: true}
	var quiet, loud []string
	for i := range e.BlockedBy {
		b := &e.BlockedBy[i]
		ctx, cancel := context.WithTimeout(ctx, blockWithin)
		why, err := blocks(ctx, b)
		cancel()
		switch {
		case err != nil:
			return g, err
		case why == "":
			quiet = append(quiet, b.Says())
		default:
			loud = append(loud, b.Says()+": "+why)
		}
	}
	g.Says = "quiet: " + strings.Join(quiet, ", ")
	if g.Refuses = len(loud) > 0; g.Refuses {
		g.Says = strings.Join(loud, "; ") + ". Run the drill again when this is quiet"
	}
	return g, nil
}

// notAsked says why nothing is known of a block.
func notAsked(err error) string {
	if sent := new(url.Error); errors.As(err, &sent) { // the address stands in the file
		if err = sent.Err; sent.Timeout() {
			err = errors.New("no answer in time")
		}
	}
	return "it cannot be asked: " + err.Error()
}

// blocks says why a block is not quiet, or "". The error is one of settings.
func blocks(ctx context.Context, b *experiments.Block) (string, error) {
	switch {
	case b.File != "":
		_, err := os.Lstat(b.File)
		switch {
		case err == nil:
			return "the file is there", nil
		case !errors.Is(err, fs.ErrNotExist):
			return notAsked(err), nil
		}
	case b.URL != "":
		return answersQuiet(ctx, b.URL), nil
	case b.PromQL != nil:
		server, err := promServer("blocked_by "+b.Says(), &b.PromQL.PromServer)
		if err != nil {
			return "", err
		}
		values, err := probes.Instant(ctx, b.PromQL.Query, server)
		if err != nil {
			return notAsked(err), nil
		}
		for _, v := range values {
			if v != 0 {
				return fmt.Sprintf("the query gives %g", v), nil
			}
		}
	}
	return "", nil
}

// answersQuiet asks an address. Where it is sent elsewhere, it asks nobody: the file does not name that address.
func answersQuiet(ctx context.Context, address string) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return notAsked(err)
	}
	asker := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := asker.Do(r)
	if err != nil {
		return notAsked(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return "it answers " + answer.Status
	}
	return ""
}
