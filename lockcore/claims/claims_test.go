package claims

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// line is an event as a history has it, without what is the same in all of them here.
func line(t *testing.T, e history.Event) string {
	t.Helper()
	if err := e.Check(); err != nil {
		t.Errorf("%s: %v", e.Kind, err)
	}
	b, err := history.MarshalEvent(&e)
	if err != nil {
		t.Fatal(err)
	}
	s := string(b)
	for _, same := range []string{`"n":0,`, `"at":0,`, `"source":"r1.1",`, `"clock":"shared",`, `"lock":"job",`, `"key":"job:a",`} {
		s = strings.Replace(s, same, "", 1)
	}
	return s
}

func holder() *Holder {
	return &Holder{Source: "r1.1", Lock: "job", Key: "job:a", Epoch: "9f86d081884c", Fence: 7}
}

func TestActions(t *testing.T) {
	for _, tt := range []struct {
		action lockcore.Action
		want   []string
	}{
		{lockcore.Action{Kind: lockcore.ActDo}, nil},
		{lockcore.Action{Kind: lockcore.ActGrant}, nil},
		{lockcore.Action{Kind: lockcore.ActDone}, nil},
		{lockcore.Action{Kind: lockcore.ActWait}, []string{`{"kind":"wait.begin","from":5,"to":5,"op":"job#1","call":{"result":"held"}}`}},
		{lockcore.Action{Kind: lockcore.ActWaited, Result: lockcore.OK},
			[]string{`{"kind":"wait.end","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"op":"job#1","outcome":"ok","call":{"result":"granted"}}`}},
		{lockcore.Action{Kind: lockcore.ActWaited, Result: lockcore.Held},
			[]string{`{"kind":"wait.end","from":5,"to":5,"fence":7,"op":"job#1","outcome":"fail","call":{"result":"held"}}`}},
		{lockcore.Action{Kind: lockcore.ActFence, Reason: lockcore.ReasonCount, Failures: 3, Working: true}, []string{
			`{"kind":"fence.observed","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"abandon":{"reason":"count","failures":3}}`,
			`{"kind":"abandon","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"abandon":{"reason":"count","failures":3}}`}},
		{lockcore.Action{Kind: lockcore.ActFence, Reason: lockcore.ReasonExpired},
			[]string{`{"kind":"fence.observed","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"abandon":{"reason":"expired"}}`}},
		{lockcore.Action{Kind: lockcore.ActUnowned, Reason: lockcore.ReasonDeadline},
			[]string{`{"kind":"unowned.enter","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"abandon":{"reason":"deadline"}}`}},
		{lockcore.Action{Kind: lockcore.ActSkip, Reason: lockcore.ReasonTTLHold},
			[]string{`{"kind":"release.skipped","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"call":{"why":"ttl_hold"}}`}},
	} {
		var got []string
		for _, e := range holder().Append(nil, &tt.action, "job#1", 5) {
			got = append(got, line(t, e))
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%+v:\n%s\nwant\n%s", tt.action, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

func TestCalls(t *testing.T) {
	const ttl = 3 * time.Second
	for _, tt := range []struct {
		op     lockcore.Op
		answer Answer
		invoke string
		back   string
	}{
		{lockcore.OpAcquire, Answer{Result: lockcore.OK, Fence: 9},
			`{"kind":"acquire.invoke","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"op":"job#2","call":{"ttl":3000000000,"attempt":1,"demand":true}}`,
			`{"kind":"acquire.return","from":5,"to":8,"epoch":"9f86d081884c","fence":9,"op":"job#2","outcome":"ok","call":{"ttl":3000000000,"result":"granted","attempt":1}}`},
		{lockcore.OpAcquire, Answer{Result: lockcore.Held, Holder: "ab", PTTL: -2},
			`{"kind":"acquire.invoke","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"op":"job#2","call":{"ttl":3000000000,"attempt":1,"demand":true}}`,
			`{"kind":"acquire.return","from":5,"to":8,"epoch":"9f86d081884c","fence":7,"op":"job#2","outcome":"fail","call":{"ttl":3000000000,"result":"held","holder":"ab","pttl":-1,"attempt":1}}`},
		{lockcore.OpRenew, Answer{Result: lockcore.Unknown, Err: "timeout", Fault: "burst#1"},
			`{"kind":"renew.invoke","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"op":"job#2","call":{"ttl":3000000000,"attempt":1}}`,
			`{"kind":"renew.return","from":5,"to":8,"epoch":"9f86d081884c","fence":7,"op":"job#2","outcome":"unknown","call":{"ttl":3000000000,"result":"error","err":"timeout","attempt":1,"fault":"burst#1"}}`},
		{lockcore.OpRelease, Answer{Result: lockcore.Other, Holder: "ab"},
			`{"kind":"release.invoke","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"op":"job#2","call":{"ttl":3000000000,"attempt":1}}`,
			`{"kind":"release.return","from":5,"to":8,"epoch":"9f86d081884c","fence":7,"op":"job#2","outcome":"fail","call":{"ttl":3000000000,"result":"other","holder":"ab","attempt":1}}`},
		{lockcore.OpUndo, Answer{Result: lockcore.Failed, Err: "refused"},
			`{"kind":"undo.invoke","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"op":"job#2","call":{"ttl":3000000000,"attempt":1}}`,
			`{"kind":"undo.return","from":5,"to":8,"epoch":"9f86d081884c","fence":7,"op":"job#2","outcome":"fail","call":{"ttl":3000000000,"result":"error","err":"refused","attempt":1}}`},
		{lockcore.OpUndo, Answer{Result: lockcore.OK},
			`{"kind":"undo.invoke","from":5,"to":5,"epoch":"9f86d081884c","fence":7,"op":"job#2","call":{"ttl":3000000000,"attempt":1}}`,
			`{"kind":"undo.return","from":5,"to":8,"epoch":"9f86d081884c","fence":7,"op":"job#2","outcome":"ok","call":{"ttl":3000000000,"result":"released","attempt":1}}`},
	} {
		call := lockcore.Call{ID: 1, Op: tt.op, TTL: ttl, Attempt: 1}
		if got := line(t, holder().Invoke(&call, "job#2", 5)); got != tt.invoke {
			t.Errorf("%s is announced as\n%s, want\n%s", tt.op, got, tt.invoke)
		}
		if got := line(t, holder().Return(&call, "job#2", history.Span{From: 5, To: 8}, &tt.answer)); got != tt.back {
			t.Errorf("%s, %+v returns as\n%s, want\n%s", tt.op, tt.answer, got, tt.back)
		}
	}
}
