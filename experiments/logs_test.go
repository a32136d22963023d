package experiments

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each of the eight lines of the articles, as Go's slog writes it, is found by its own pattern, and a line of no lock by none.
func TestThePresetFindsTheLinesOfTheArticles(t *testing.T) {
	lines := map[string][]string{
		"job_lock_abandoned":           {`level=ERROR msg="scheduling failed" error="job lock abandoned: renewal failed"`},
		"run_lock_renewal_failed":      {`level=WARN msg="run lock renewal failed" run_id=r-1 error="i/o timeout"`},
		"lock_not_owned":               {`{"level":"WARN","msg":"release","error":"Lock not owned"}`},
		"lock_release_skipped":         {`level=INFO msg="lock release skipped: token mismatch" key=cordum:wf:run:lock:r-1`},
		"job_lock_release_failed":      {`level=WARN msg="job lock release failed, retrying" job_id=j-1 error="i/o timeout"`},
		"lock_will_expire":             {`level=ERROR msg="job lock release retry failed, lock will expire via TTL" job_id=j-1 ttl=1m0s`},
		"run_lock_release_failed":      {`level=WARN msg="distributed run lock release failed" run_id=r-1`},
		"approval_lock_release_failed": {`level=WARN msg="approval lock release failed" job_id=j-1`, "2026/03/01 12:00:00 WARN approval lock release failed job_id=j-1"},
	}
	found := (&Logs{Preset: "cordum"}).Named()
	if len(found) != len(lines) {
		t.Errorf("%d patterns for %d lines", len(found), len(lines))
	}
	none := `level=INFO msg="job lock acquired" job_id=j-1`
	for _, p := range found {
		re := regexp.MustCompile(p.Pattern)
		for name, texts := range lines {
			for _, text := range texts {
				if re.MatchString(text) != (name == p.Name) {
					t.Errorf("pattern %s and the line %q of %s", p.Name, text, name)
				}
			}
		}
		if re.MatchString(none) || len(lines[p.Name]) == 0 {
			t.Errorf("pattern %s finds %q, or nothing", p.Name, none)
		}
	}
	if older := (&Logs{Preset: "lockdrill"}).Named(); !slices.Equal(older, found) {
		t.Errorf("the older word means %v", older)
	}
}

// The preset of metrics names what the articles do; stale jobs and replays are what a backlog is seen by.
func TestThePresetNamesTheMetricsOfTheArticles(t *testing.T) {
	p := Probes{Metrics: []Metric{{Name: "own", Scrape: "http://a/metrics", Series: "s"}, {Preset: "cordum", Scrape: "http://b/metrics", Every: 100 * time.Millisecond}}}
	var names []string
	for _, m := range p.Numbers() {
		if m.Name != "own" && (m.Scrape != "http://b/metrics" || m.Every != 100*time.Millisecond) {
			t.Errorf("%+v", m)
		}
		names = append(names, m.Name+"="+m.What())
	}
	want := "own=s job_lock_abandoned=cordum_scheduler_job_lock_abandoned_total job_lock_waits=job_lock_wait_count " +
		"job_lock_wait_sum=job_lock_wait_sum stale_jobs=stale_jobs orphan_replayed=orphan_replayed_total"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Of a selector the samples are read; any other expression the server evaluates. What gives no numbers of now is refused.
func TestQueries(t *testing.T) {
	for _, query := range []string{"up", ` up `, "job:rate:sum", `{app="sched"}`, `up{}`, `up{app="a,b}", x!~'y"',}`, "up{app=`raw\\`}", `{__name__=~"stale_.*"}`} {
		if why := noQuery(query, false); why != "" || (&Query{Query: query}).Evaluated() {
			t.Errorf("%s is a selector: %s", query, why)
		}
	}
	for _, query := range []string{"1", "up + 1", "sum(up)", `max by (pod) (x{a="}"})`, `histogram_quantile(0.99, sum by (le) (rate(w_bucket{app='a'}[1m])))`, `rate(x[1m]) / rate(x[1m] offset 1h)`,
		`label_replace(up, "a", "$1(", "b", "(.*)")`, "max_over_time(x[5m:1s])"} {
		if why := noQuery(query, false); why != "" || !(&Query{Query: query}).Evaluated() {
			t.Errorf("%s is an expression: %s", query, why)
		}
	}
	for _, query := range []string{"", " ", "{}", "up[5m]", "up[5m:1s]", "up offset 5m", "up @ 1000", `up{app="a"} offset 1h`, `up{app="a"`, `up{app=a}`, `up{"app"="x"}`, "sum(up", "rate(x[1m)", `sum(x{a="b})`} {
		if noQuery(query, false) == "" {
			t.Errorf("%q gives no numbers of now", query)
		}
	}
}
