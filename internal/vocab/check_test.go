package vocab

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type garden struct {
	Mode   string `rule:"words=open|walled,default=open"`
	Key    string `rule:"for=mode:walled,need=mode:walled,not=code"`
	Code   string `rule:"for=mode:walled"`
	Gate   *gate  `rule:"for=@large"`
	Beds   []bed
	Season string `rule:"format=season"`
	Porter string `rule:"for=key|code"`
}

type gate struct {
	_      struct{} `rule:"one=wood|iron"`
	Wood   string
	Iron   string
	Colour string `rule:"for=wood"`
}

type bed struct {
	_      struct{} `rule:"any=roses|water"`
	Name   string   `rule:"required,unique"`
	Beside string   `rule:"ref=bed"`
	Roses  int
	Water  time.Duration `rule:"least=1s,most=1h"`
}

var gardens = &Vocabulary{
	Home:     reflect.TypeFor[garden]().PkgPath(),
	Comments: func() map[string]string { return nil },
	Formats:  map[string]Format{"season": Matching(`^(spring|autumn)$`, "%q is no season for it")},
	Facts:    map[string]string{"large": "a large garden"},
}

// Each rule is broken once, and kept once. A problem stands at the value that breaks it, or at the section that lacks one.
func TestRules(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"kept", "{mode: walled, key: k, beds: [{name: a, roses: 1, beside: b}, {name: b, water: 2s}], season: spring}", ""},
		{"for", "{mode: open, key: k}", "1:19 key: goes with mode walled, not open"},
		{"for of a default", "{key: k}", "1:7 key: goes with mode walled, not open"},
		{"need", "{mode: walled}", "1:1 mode walled needs key"},
		{"need of what another field stands for", "{mode: walled, code: c}", ""},
		{"not", "{mode: walled, key: k, code: c}", "1:21 key: does not go with code; leave one of them out"},
		{"for one of several", "{porter: p}", "1:10 porter: goes with key or code only"},
		{"for one of several, kept", "{mode: walled, code: c, porter: p}", ""},
		{"fact", "{gate: {wood: oak}}", "1:8 gate: goes with a large garden only"},
		{"what a fact rules out is asked for nothing more", "{gate: {wood: oak, iron: x}}", "1:8 gate: goes with a large garden only"},
		{"any", "{beds: [{name: a}]}", "1:9 beds[0]: needs roses or water"},
		{"unique", "{beds: [{name: a, roses: 1}, {name: a, roses: 1}]}", `1:37 beds[1].name: "a" is there twice: the first is beds[0]`},
		{"ref", "{beds: [{name: rose, roses: 1, beside: roes}]}", `1:40 beds[0].beside: no bed is called "roes": did you mean "rose"?`},
		{"least", "{beds: [{name: a, water: 1ms}]}", "1:26 beds[0].water: 1ms is too short: at least 1s"},
		{"most", "{beds: [{name: a, water: 2h}]}", "1:26 beds[0].water: 2h is too long: at most 1h"},
		{"format", "{season: winter}", `1:10 season: "winter" is no season for it`},
		{"a condition on what did not decode is taken to hold", "{mode: [x], key: k}", `1:8 mode: one value is wanted, not a list`},
	} {
		if got := problems(c.text, false); got != c.want {
			t.Errorf("%s: %s\n got  %s\n want %s", c.name, c.text, got, c.want)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"one", "{gate: {wood: oak}}", ""},
		{"none of one", "{gate: {colour: red}}", "1:8 gate: needs wood or iron"},
		{"two of one", "{gate: {wood: oak, iron: x}}", "1:8 gate: has wood and iron: give exactly one of wood or iron"},
		{"beside", "{gate: {iron: x, colour: red}}", "1:26 gate.colour: goes with wood only"},
	} {
		if got := problems(c.text, true); got != c.want {
			t.Errorf("%s: %s\n got  %s\n want %s", c.name, c.text, got, c.want)
		}
	}
}

// problems are those of a garden, each with its place.
func problems(text string, large bool) string {
	f := gardens.Open("garden.yaml", []byte(text), false)
	var g garden
	f.Decode(&g)
	f.Facts = map[string]bool{"large": large}
	f.Refs = func(string) (names []string, known bool) {
		for _, b := range g.Beds {
			names = append(names, b.Name)
		}
		return names, true
	}
	f.CheckRules("", &g)
	if f.Err() == nil {
		return ""
	}
	var all []string
	for _, p := range f.Err().(Problems) {
		all = append(all, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Message))
	}
	return strings.Join(all, "\n")
}

// What follows a telling name is hidden, but for the pattern that finds it in somebody's log: its owner has to see what is wrong with it.
func TestSecretsAreHiddenAndPatternsAreNot(t *testing.T) {
	for line, want := range map[string]string{
		`run: [x, --token=abc, redis://me:pw@host/0]`:                   `run: [x, --token=***, redis://***@host/0]`,
		`pattern: 'got (?P<key>\S+) token=(?P<token>\S+) secret=x'`:     `pattern: 'got (?P<key>\S+) token=(?P<token>\S+) secret=***'`,
		`pattern: 'token=(?<token>\S+)'`:                                `pattern: 'token=(?<token>\S+)'`,
		`password: hunter2`:                                             `password: ***`,
		`map: {job: id, token: lock, "op": o, auth_token: x, at: y}`:    `map: {job: id, token: lock, "op": o, auth_token: ***, at: y}`,
		`http: {token: hunter2, url: x, password: "a, b: \" c", at: y}`: `http: {token: ***, url: x, password: ***, at: y}`,
		`{secret: {from: a, of: hunter2}, at: y}`:                       `{secret: ***`,
		`{a: {b: c}, secret: "hunter2" x, at: y}`:                       `{a: {b: c}, secret: ***`,
		`password: hunter2, at: y`:                                      `password: ***`,
	} {
		if got := RedactLine(line); got != want {
			t.Errorf("%s\nis shown as %s\nwant        %s", line, got, want)
		}
	}
}
