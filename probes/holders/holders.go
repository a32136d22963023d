// Package holders finds out which replica holds a key of a system that is somebody's own, where the key does not say: one file a source.
//
// A source answers by what it has seen of the key's present token, never of the key alone, and says so where it does not know. It
// strikes nobody and decides nothing: Chain holds the answers against one another. Values of keys are secrets, and stay in here.
package holders

import (
	"context"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Life is a replica that lives.
type Life struct {
	Incarnation string
	Name        string            // its owner's word for it; "" = none is known
	PID         int               // 0 = it is no process of this host
	Known       map[string]string // what is known of it, by the words of templates: ip, pod, ...
	Since       int64             // it lives at the latest since then; before the run it is negative
	Log         string            // path of its log; "" = not known
	Metrics     string            // address of its exposition; "" = not known
}

// Question is a key with its present token.
type Question = witness.Unclaimed

// Answer is what a source knows. No holder: it does not know. Several: the token leads to all of them.
type Answer struct {
	Holders []string // incarnations
	Why     string   // it does not know: what it lacks, for a person
}

// Source is one way to find out.
type Source interface {
	// Word is what the file calls it.
	Word() string
	// Ask answers now. It keeps to ctx.
	Ask(ctx context.Context, q Question) Answer
}

// Instant is a source that answers from what it has already seen, at once.
type Instant interface {
	Source
	// Recall is Ask without asking anybody.
	Recall(q Question) Answer
}

// Fits says whether a name is the replica's.
type Fits func(l Life, name string) bool

// named are the lives that a name fits.
func named(lives []Life, fits Fits, name string) Answer {
	var a Answer
	for _, l := range lives {
		if fits(l, name) {
			a.Holders = append(a.Holders, l.Incarnation)
		}
	}
	return a
}

// unknown is an answer that is none.
func unknown(why string) Answer { return Answer{Why: why} }

// sighting is what a source has seen of a token: whose it is.
type sighting struct {
	incarnation string
	at          history.Span
	old         bool // the life before may have said it
}

// tokenID names a key with a token, without telling the token.
func tokenID(key, token string) string { return key + " " + lockcore.Fingerprint(token) }

// younger reports that a sighting may be of the token's present grant.
func (s sighting) younger(q Question) bool { return s.at.To >= q.Since }

func among(lives []Life, incarnation string) bool {
	for _, l := range lives {
		if l.Incarnation == incarnation {
			return true
		}
	}
	return false
}

// oneLine is a text for a sentence.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
