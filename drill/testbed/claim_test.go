package testbed

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// The examples of docs/worker-protocol.md are what this package really sends and takes.
func TestDocumentedExamples(t *testing.T) {
	doc, err := os.ReadFile("../../docs/worker-protocol.md")
	testkit.Must(t, err)
	who := history.Replica{Name: "r1", Incarnation: "r1.1", PID: 1}
	words := map[string]int{}
	for _, line := range slices.Concat(block(t, string(doc), "commands"), block(t, string(doc), "session"), block(t, string(doc), "fault")) {
		if said, ok := strings.CutPrefix(line, "< "); ok {
			var e history.Event
			err := claim(new(history.Parser), []byte(said), &who, 1000, &e)
			if err != nil {
				t.Errorf("event %s: %v", said, err)
			}
			if e.Epoch != "" && e.Epoch != lockcore.Fingerprint("test") {
				t.Errorf("epoch %q is no fingerprint of the example's token", e.Epoch)
			}
			words[string(e.Kind)]++
			continue
		}
		dec := json.NewDecoder(bytes.NewReader([]byte(strings.TrimPrefix(line, "> "))))
		dec.DisallowUnknownFields()
		var c protocol.Command
		if err := dec.Decode(&c); err != nil {
			t.Errorf("command %s: %v", line, err)
		}
		if c.V != protocol.Version {
			t.Errorf("command %s: version %d", line, c.V)
		}
		words[c.Cmd]++
	}
	for _, word := range []string{
		protocol.CmdConfigure, protocol.CmdOffer, protocol.CmdArm, protocol.CmdDisarm, protocol.CmdCrash, protocol.CmdStop, "replica.ready", "job.ack", "fault.hit", "fault.reverted",
	} {
		if words[word] == 0 {
			t.Errorf("no example of %s", word)
		}
	}
}

// block gives the lines of the fenced blocks of a language.
func block(t *testing.T, doc, language string) []string {
	t.Helper()
	_, rest, found := strings.Cut(doc, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatalf("no block of %s in the document", language)
	}
	return strings.Split(text, "\n")
}

func TestClaimIsMovedAndSigned(t *testing.T) {
	who := history.Replica{Name: "r1", Incarnation: "r1.2", PID: 7}
	var e history.Event
	err := claim(new(history.Parser), []byte(`{"n":99,"at":99,"kind":"job.ack","from":1500,"to":1600,"source":"runner","clock":"runner","lock":"l","key":"k","job":{"id":"j"},"x":1}`), &who, 1000, &e)
	testkit.Must(t, err)
	if e.N != 0 || e.At != 0 || e.Source != "r1.2" || e.Clock != history.ClockShared || e.From != 500 || e.To != 600 {
		t.Errorf("claim = %+v", e)
	}
	for _, line := range []string{
		``, `[]`, `{}`, `{"kind":"run.end","note":{"what":"completed"}}`, `{"kind":"fault.applied","op":"f#1"}`,
		`{"kind":"look","lock":"l","key":"k","look":{}}`, `{"kind":"job.ack","lock":"l","key":"k","job":{"id":"j"}} {}`,
		`{"kind":"job.ack","from":2,"to":1,"lock":"l","key":"k","job":{"id":"j"}}`, `{"kind":"job.ack","lock":"l","key":"k"}`,
	} {
		var e history.Event
		if err := claim(new(history.Parser), []byte(line), &who, 0, &e); err == nil {
			t.Errorf("claim(%s) = %+v, want an error", line, e)
		}
	}
}

func TestReadyTellsWhereMetricsAre(t *testing.T) {
	who := history.Replica{Name: "r1", Incarnation: "r1.2", PID: 7}
	var e history.Event
	err := claim(new(history.Parser), []byte(`{"kind":"replica.ready","from":9,"to":9,"replica":{"name":"x","incarnation":"x.9","pid":1,"metrics":"127.0.0.1:40123"}}`), &who, 0, &e)
	who.Metrics = "127.0.0.1:40123"
	if err != nil || *e.Replica != who {
		t.Errorf("ready became %+v (%v), want %+v", e.Replica, err, who)
	}
}
