package reports

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/browser"
)

// served gives pages by their names over loopback, below /strict/ with a policy that forbids whatever can be forbidden.
func served(t *testing.T, pages map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		name, strict := strings.CutPrefix(name, "strict/")
		if pages[name] == "" {
			http.NotFound(w, r)
			return
		}
		if strict {
			w.Header().Set("Content-Security-Policy", "default-src 'none'")
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(pages[name]))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

// views are those that a page must be looked well at.
func views() []browser.View {
	return []browser.View{{Width: 1280, Height: 900}, {Width: 1280, Height: 900, Dark: true}, {Width: 390, Height: 844}, {Width: 390, Height: 844, Dark: true},
		{Width: 800, Height: 900}, {Width: 1000, Height: 900}}
}

// TestHTMLInABrowser looks at pages with a real browser.
func TestHTMLInABrowser(t *testing.T) {
	b := browser.Start(t)
	t.Run("looks", func(t *testing.T) { looksWell(t, b) })
	t.Run("strict policy", func(t *testing.T) { standsStrictPolicy(t, b) })
	t.Run("keyboard", func(t *testing.T) { worksByKeyboard(t, b) })
	t.Run("paper", func(t *testing.T) { fitsOnPaper(t, b) })
}

// Nothing overflows, overlaps or is cut off, every text can be read against what lies behind it, and nothing is asked of the network.
func looksWell(t *testing.T, b *browser.Browser) {
	pages := map[string]string{"evil": htmlOf(t, sabotaged(t))}
	pages["pods"] = htmlOf(t, podRun(t, "pods-force-delete-overlap"))
	pages["sixty-kills"] = htmlOf(t, sixtyKills(t))
	pages["late"] = htmlOf(t, lateAndBounded(t))
	for _, name := range []string{"fail", "inconclusive"} {
		pages[name] = htmlOf(t, recorded(t, name))
	}
	at := served(t, pages)
	measure, err := os.ReadFile("testdata/geometry.js")
	if err != nil {
		t.Fatal(err)
	}
	for name := range pages {
		p := b.Open(t, at+name, views()[0])
		browser.Eval[int](t, p, `document.querySelectorAll("details").forEach(d => d.open = true), 0`)
		for _, v := range views() {
			p.Show(t, v)
			for _, cut := range browser.Eval[[]string](t, p, `[...document.querySelectorAll(".ld-legend li")].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.textContent)`) {
				t.Errorf("%s at %s: the legend is cut at %q", name, v, cut)
			}
			for _, fault := range browser.Eval[[]string](t, p, fmt.Sprintf("(%s)(%d)", measure, v.Width)) {
				t.Errorf("%s at %s: %s", name, v, fault)
			}
		}
		if got := p.Requests(); !slices.Equal(got, []string{at + name}) {
			t.Errorf("%s asked for %q", name, got)
		}
		if got := p.Complaints(); len(got) > 0 {
			t.Errorf("%s: the browser complains: %q", name, got)
		}
	}
}

// lateAndBounded is a run each row of whose SLOs has all that its columns can say.
func lateAndBounded(t *testing.T) Run {
	r := recorded(t, "fail")
	bound := 0.3482
	for i := range r.Judgement.SLOs {
		s := &r.Judgement.SLOs[i]
		s.Verdict, s.Of, s.Lateness, s.Bound, s.BoundN, s.Lock = verdict.Pass, "takeover", 0.453, &bound, 17, "payments-scheduler"
	}
	return r
}

// A server that forbids style as well leaves a page that can be read: every heading, every figure, and pictures of the right size.
func standsStrictPolicy(t *testing.T, b *browser.Browser) {
	page := htmlOf(t, recorded(t, "fail"))
	at := served(t, map[string]string{"fail": page})
	p := b.Open(t, at+"strict/fail", browser.View{Width: 1280, Height: 900})
	if got := p.Requests(); !slices.Equal(got, []string{at + "strict/fail"}) {
		t.Errorf("asked for %q", got)
	}
	for _, c := range p.Complaints() {
		if !strings.Contains(c, "inline style") { // the element that the policy forbids
			t.Errorf("the browser complains: %s", c)
		}
	}
	seen := browser.Eval[struct {
		Styled                bool
		Headings, Hidden      []string
		Verdict, Font         string
		Pictures, Wide, Empty int
	}](t, p, `(() => {
		const shown = e => e.getClientRects().length > 0;
		const headings = [...document.querySelectorAll("h1, h2")];
		const pictures = [...document.querySelectorAll("svg[role=img]")].filter(shown);
		return {
			Styled: getComputedStyle(document.body).maxWidth != "none",
			Headings: headings.filter(shown).map(h => h.textContent), Hidden: headings.filter(h => !shown(h)).map(h => h.textContent),
			Verdict: document.querySelector(".word").textContent,
			Pictures: pictures.length,
			Wide: pictures.filter(s => s.getBoundingClientRect().width > 1300).length,
			Empty: pictures.filter(s => s.getBoundingClientRect().height < 40).length,
		};
	})()`)
	if seen.Styled {
		t.Error("the strict policy was not in force: the page has its style")
	}
	if seen.Verdict != "FAIL" || len(seen.Headings) != 13 || len(seen.Hidden) > 0 {
		t.Errorf("without style: %+v", seen)
	}
	if seen.Pictures < 5 || seen.Wide+seen.Empty > 0 {
		t.Errorf("without style %d pictures are seen, %d too wide, %d without height", seen.Pictures, seen.Wide, seen.Empty)
	}
}

// Whoever has only a keyboard comes first to a link that skips the list of sections, and can scroll whatever scrolls.
func worksByKeyboard(t *testing.T, b *browser.Browser) {
	at := served(t, map[string]string{"fail": htmlOf(t, recorded(t, "fail"))})
	p := b.Open(t, at+"fail", browser.View{Width: 390, Height: 844})
	p.Press(t, "\t")
	first := browser.Eval[string](t, p, `(() => {
		const e = document.activeElement, r = e.getBoundingClientRect();
		return e.textContent + (r.left >= 0 && r.top >= 0 && r.right <= 390 ? "" : ": not in sight");
	})()`)
	if first != "Skip to the report" {
		t.Errorf("the first stop is %q", first)
	}
	stuck := browser.Eval[[]string](t, p, `[...document.querySelectorAll("*")]
		.filter(e => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX) && !(e.tabIndex === 0 && e.getAttribute("aria-label")))
		.map(e => e.outerHTML.slice(0, 80))`)
	for _, s := range stuck {
		t.Errorf("a box scrolls and cannot be reached: %s", s)
	}
	target := browser.Eval[string](t, p, `(() => {
		const a = document.querySelector("table.cards a"), row = document.getElementById(a.hash.slice(1));
		location.hash = a.hash;
		return row.closest("details").open && row.getClientRects().length > 0 ? "" : a.hash + " stays folded";
	})()`)
	if target != "" {
		t.Errorf("a link into the event log: %s", target)
	}
}

// On paper what is folded stays folded, and the page takes six sheets of A4 at most.
func fitsOnPaper(t *testing.T, b *browser.Browser) {
	at := served(t, map[string]string{"fail": htmlOf(t, recorded(t, "fail"))})
	p := b.Open(t, at+"fail", browser.View{Width: 718, Height: 1047, Print: true})
	if n := browser.Eval[int](t, p, `[...document.querySelectorAll("details:not([open]) *")].filter(e => e.checkVisibility()).length`); n > 0 {
		t.Errorf("%d folded things are printed", n)
	}
	if got := browser.Eval[int](t, p, `document.documentElement.scrollHeight`); got > 6*1047 {
		t.Errorf("%d px high: more than six sheets", got)
	}
	if n := browser.Eval[int](t, p, `document.querySelector("#log").getClientRects().length`); n != 0 {
		t.Error("the event log is printed")
	}
	if got := browser.Eval[int](t, p, `document.documentElement.scrollWidth`); got > 718 {
		t.Errorf("%d px wide on a sheet of 718", got)
	}
}
