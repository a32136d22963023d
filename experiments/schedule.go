package experiments

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/calendar"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// scheduleFile is a schedule as it is spelled.
type scheduleFile struct {
	APIVersion string `file:"apiVersion" rule:"required,words=lockdrill/v1"` // version of this file format
	Kind       string `rule:"required,words=Schedule"`                       // what the file is
	Schedule
}

// Schedule is what a server drills by itself, when, and who is told of it.
type Schedule struct {
	Freeze        bool      // nothing starts while it is true
	FreezeFile    string    // a file, beside the schedule: nothing starts while it is there
	Windows       []Window  // a drill starts only within one of them; none: always
	Blackouts     []Window  // no drill starts within one of them
	BlackoutDates []Dates   // no drill starts on one of these days
	Drills        []Planned `rule:"required"` // what is drilled, and when
	Notices       []Notice  // who is told
}

// Dates are days in a time zone.
type Dates struct {
	From string `rule:"required"` // first day: "2026-12-24"
	To   string // last day; left out: the first
	Zone string `rule:"required,format=zone"` // as in the tz database, such as Europe/Berlin
	Why  string // shown with each drill that does not run because of it
}

// Planned is one drill of a schedule. Without cron and between it runs on demand only.
type Planned struct {
	Name        string            `rule:"required,ident"` // of the drill in the schedule
	Experiment  string            `rule:"required"`       // its experiment file, in the server's folder of experiments
	Cron        string            // minute, hour, day of the month, month, day of the week: "0 10 * * tue"
	Zone        string            `rule:"format=zone"` // time zone of cron, as in the tz database; left out: UTC
	Between     *Window           // once in each such stretch, at a time that nobody knows before
	Wait        time.Duration     `rule:"default=10m" scale:"no"`          // a drill that is due waits at most so long for what keeps it from starting; then it is unrun
	Overlap     string            `rule:"words=queue|skip,default=skip"`   // while another run has the target: queue waits for it, skip leaves the drill out
	Approval    string            `rule:"words=required"`                  // required: another person must approve the very plan that is run
	ApprovalFor time.Duration     `rule:"positive,default=24h" scale:"no"` // an approval that is not used for so long is void
	BlockedBy   []Condition       // each must be quiet before the drill starts
	Labels      map[string]string // of its runs, as run --label gives them
	Confirm     string            // name of the experiment, where it touches what lockdrill does not start itself, as run --confirm
	Environment string            `rule:"ident"` // as run --environment
	Context     string            // of the kubeconfig, as run --context
	Namespace   string            // of the pods, as run --namespace
}

// Words of Planned.
const (
	OverlapQueue = "queue"
	OverlapSkip  = "skip"
)

// Condition keeps a drill from starting. Exactly one of File, URL and PromQL is set. One that cannot be asked is not quiet.
type Condition struct {
	Name   string          `rule:"ident"` // what it is called where it keeps a drill from starting
	File   string          // a file, beside the schedule: quiet while it is not there
	URL    string          `file:"url"`    // quiet while it answers with a status from 200 to 299
	PromQL *QueryCondition `file:"promql"` // quiet while a query has no result, or 0
}

// QueryCondition is a query that a Prometheus server evaluates.
type QueryCondition struct {
	Query string `rule:"required"` // any PromQL, such as ALERTS{alertstate="firing"}
	PromServer
}

// Notice is somebody who is told what a drill came to. Exactly one of Webhook, Slack and Grafana is set.
type Notice struct {
	Name    string         `rule:"required,ident"` // in the server's log
	Webhook *WebhookNotice // a signed CloudEvent by POST
	Slack   *SlackNotice   // a line by an incoming webhook of Slack
	Grafana *GrafanaNotice // a region annotation for the drill, and one for each fault
	Drills  []string       // names of drills of this file; left out: all
}

// WebhookNotice is an address that takes CloudEvents 1.0 as structured JSON.
type WebhookNotice struct {
	URL        string `file:"url"`      // address; one of url, url_env and url_file
	URLEnv     string `file:"url_env"`  // name of the environment variable that holds the address
	URLFile    string `file:"url_file"` // file that holds the address, beside the schedule
	SecretEnv  string // name of the environment variable that holds the key of the signature
	SecretFile string // file that holds the key of the signature, beside the schedule
}

// SlackNotice is an incoming webhook of Slack: its address is a secret.
type SlackNotice struct {
	URLEnv  string `file:"url_env"`  // name of the environment variable that holds the address
	URLFile string `file:"url_file"` // file that holds the address, beside the schedule
}

// GrafanaNotice is a Grafana whose annotations show drills.
type GrafanaNotice struct {
	URL          string   `file:"url" rule:"required"` // address of the Grafana, http://grafana:3000
	TokenEnv     string   // name of the environment variable that holds a service account's token
	TokenFile    string   // file that holds the token, beside the schedule
	DashboardUID string   `file:"dashboard_uid"` // of the dashboard that has the annotations; left out: all that ask for the tags
	Tags         []string // beside lockdrill, and the name of the drill
}

// ParseSchedule reads and checks a schedule; its paths are made ones below the schedule's folder. The error is always of type Problems.
func ParseSchedule(name string, data []byte) (*Schedule, error) {
	doc := scheduleFile{}
	f := vocabulary.Open(name, data, false)
	if f.Root != nil {
		f.Decode(&doc)
		f.CheckRules("", &doc)
		(&scheduleChecker{checker: &checker{File: f, e: &Experiment{}}, s: &doc.Schedule}).all()
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	doc.place(filepath.Dir(name))
	return &doc.Schedule, nil
}

// ScheduleSchema is the JSON Schema of a schedule, as Schema is that of an experiment.
func ScheduleSchema() ([]byte, error) {
	return schemaOf("lockdrill schedule", &scheduleFile{})
}

func (s *Schedule) place(dir string) {
	paths := []*string{&s.FreezeFile}
	for i := range s.Drills {
		for j := range s.Drills[i].BlockedBy {
			b := &s.Drills[i].BlockedBy[j]
			if paths = append(paths, &b.File); b.PromQL != nil {
				paths = append(paths, &b.PromQL.CA)
			}
		}
	}
	for i := range s.Notices {
		n := &s.Notices[i]
		if w := n.Webhook; w != nil {
			paths = append(paths, &w.URLFile, &w.SecretFile)
		}
		if w := n.Slack; w != nil {
			paths = append(paths, &w.URLFile)
		}
		if w := n.Grafana; w != nil {
			paths = append(paths, &w.TokenFile)
		}
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}

// scheduleChecker finds what is wrong with a schedule's values that are right one by one.
type scheduleChecker struct {
	*checker
	s *Schedule
}

func (c *scheduleChecker) all() {
	for name, list := range map[string][]Window{"windows": c.s.Windows, "blackouts": c.s.Blackouts} {
		for i := range list {
			c.stretch(vocab.At(name, i), &list[i])
		}
	}
	for i := range c.s.BlackoutDates {
		c.dates(vocab.At("blackout_dates", i), &c.s.BlackoutDates[i])
	}
	given(c.File, "freeze_file", c.s.FreezeFile)
	seen := map[string]int{}
	var names []string
	for i := range c.s.Drills {
		p, path := &c.s.Drills[i], vocab.At("drills", i)
		if first, ok := seen[p.Name]; ok && p.Name != "" {
			c.Check(path+".name", "a second drill called %q: the first is drills[%d]", p.Name, first)
		}
		seen[p.Name], names = i, append(names, p.Name)
		c.planned(path, p)
	}
	seen = map[string]int{}
	for i := range c.s.Notices {
		n, path := &c.s.Notices[i], vocab.At("notices", i)
		if first, ok := seen[n.Name]; ok && n.Name != "" {
			c.Check(path+".name", "a second notice called %q: the first is notices[%d]", n.Name, first)
		}
		seen[n.Name] = i
		for j, name := range n.Drills {
			if !slices.Contains(names, name) {
				c.Check(vocab.At(path+".drills", j), "no drill is called %s", vocab.UnknownWord(name, names))
			}
		}
		c.notice(path, n)
	}
}

func (c *scheduleChecker) dates(path string, d *Dates) {
	for _, f := range []struct{ name, value string }{{"from", d.From}, {"to", d.To}} {
		if _, err := time.Parse(time.DateOnly, f.value); f.value != "" && err != nil {
			c.Check(path+"."+f.name, "%q is no date: write it like \"2026-12-24\"", f.value)
		}
	}
	if d.To != "" && d.To < d.From {
		c.Check(path+".to", "%s is before %s", d.To, d.From)
	}
}

func (c *scheduleChecker) planned(path string, p *Planned) {
	file := filepath.ToSlash(p.Experiment)
	if p.Experiment != "" && (!filepath.IsLocal(file) || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(file))) {
		c.Check(path+".experiment", "%q is no .yaml file within the server's folder of experiments", p.Experiment)
	}
	switch {
	case p.Cron != "" && p.Between != nil:
		c.Check(path+".between", "stands beside cron: a drill has one of the two")
	case p.Cron == "" && p.Zone != "":
		c.Check(path+".zone", "is the time zone of cron, and there is no cron")
	case p.Cron != "":
		c.cron(path+".cron", p.Cron)
	case p.Between != nil:
		c.stretch(path+".between", p.Between)
	}
	if p.Between != nil && p.Between.From == "" {
		c.Check(path+".between", "says no hours: it needs from and to")
	}
	if p.Overlap == OverlapQueue && p.Wait == 0 {
		c.Check(path+".overlap", "queue needs a wait above 0s")
	}
	if c.Node(path+".approval_for") != nil && p.Approval == "" {
		c.Check(path+".approval_for", "is for approval: required")
	}
	labels := history.Labels{}
	for name, value := range p.Labels {
		if err := labels.Add(name + "=" + value); err != nil {
			c.Check(path+".labels", "%v", err)
		}
	}
	for i := range p.BlockedBy {
		c.condition(vocab.At(path+".blocked_by", i), &p.BlockedBy[i])
	}
}

// cron takes what the CronJobs of Kubernetes take.
func (c *scheduleChecker) cron(path, expr string) {
	if err := calendar.CheckCron(expr); err != nil {
		c.Check(path, "%v", err)
	}
}

func (c *scheduleChecker) condition(path string, b *Condition) {
	var set []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"file", b.File != ""}, {"url", b.URL != ""}, {"promql", b.PromQL != nil}} {
		if f.set {
			set = append(set, f.name)
		}
	}
	if len(set) != 1 {
		c.Check(path, "needs exactly one of file, url and promql%s", having(set))
		return
	}
	if b.URL != "" {
		httpAddress(c.File, path+".url", b.URL, "no address: write it like http://deploys.internal/quiet")
		openAddress(c.File, path+".url", b.URL)
	}
	if b.PromQL != nil && !c.Invalid(path+".promql") {
		b.PromQL.check(c.File, path+".promql", b.PromQL.URL)
	}
}

func having(set []string) string {
	if len(set) == 0 {
		return ""
	}
	return fmt.Sprintf(", and has %s", strings.Join(set, " and "))
}

func (c *scheduleChecker) notice(path string, n *Notice) {
	var set []string
	if n.Webhook != nil {
		set = append(set, "webhook")
	}
	if n.Slack != nil {
		set = append(set, "slack")
	}
	if n.Grafana != nil {
		set = append(set, "grafana")
	}
	switch {
	case c.Invalid(path):
	case len(set) != 1:
		c.Check(path, "needs exactly one of webhook, slack and grafana%s", having(set))
	case n.Webhook != nil:
		w := n.Webhook
		c.oneOf(path+".webhook", map[string]string{"url": w.URL, "url_env": w.URLEnv, "url_file": w.URLFile})
		c.oneOf(path+".webhook", map[string]string{"secret_env": w.SecretEnv, "secret_file": w.SecretFile})
		if w.URL != "" {
			httpAddress(c.File, path+".webhook.url", w.URL, "no address: write it like https://hooks.example.com/lockdrill")
			if u, err := url.Parse(w.URL); err == nil && (u.User != nil || vocab.Redact(w.URL) != w.URL) {
				c.Check(path+".webhook.url", "has a secret in it: say url_env or url_file")
			}
		}
	case n.Slack != nil:
		c.oneOf(path+".slack", map[string]string{"url_env": n.Slack.URLEnv, "url_file": n.Slack.URLFile})
	case n.Grafana != nil:
		g := n.Grafana
		httpAddress(c.File, path+".grafana.url", g.URL, "no address of a Grafana: write it like http://grafana:3000")
		openAddress(c.File, path+".grafana.url", g.URL)
		c.oneOf(path+".grafana", map[string]string{"token_env": g.TokenEnv, "token_file": g.TokenFile})
	}
}

// oneOf wants one of some fields, and names of environment variables to be such.
func (c *scheduleChecker) oneOf(path string, fields map[string]string) {
	var names, set []string
	for name, value := range fields {
		names = append(names, name)
		if value != "" {
			set = append(set, name)
		}
		if strings.HasSuffix(name, "_env") && value != "" && !environmentName.MatchString(value) {
			c.Check(path+"."+name, "not the name of an environment variable: capital letters, digits and underscores")
		}
	}
	slices.Sort(names)
	slices.Sort(set)
	if len(set) != 1 {
		c.Check(path, "needs exactly one of %s%s", strings.Join(names, ", "), having(set))
	}
}

// Shut says why the schedule's windows and blackouts keep a drill from starting at now, or "".
func (s *Schedule) Shut(now time.Time) string {
	for i := range s.BlackoutDates {
		if d := &s.BlackoutDates[i]; d.covers(now) {
			return "it is within the blackout " + d.String()
		}
	}
	return (&Experiment{Windows: s.Windows, Blackouts: s.Blackouts}).shut(now)
}

func (d *Dates) covers(now time.Time) bool {
	zone, err := time.LoadLocation(d.Zone)
	day := now.In(zone).Format(time.DateOnly)
	return err == nil && d.From <= day && day <= cmp.Or(d.To, d.From)
}

func (d *Dates) String() string {
	text := d.From
	if d.To != "" && d.To != d.From {
		text += " to " + d.To
	}
	if d.Why != "" {
		text += " (" + d.Why + ")"
	}
	return text
}

// Starts reports whether a stretch of the window begins on that day.
func (w *Window) Starts(day time.Time) bool { return w.on(day) }

// Drill is the drill of that name; nil = there is none.
func (s *Schedule) Drill(name string) *Planned {
	for i := range s.Drills {
		if s.Drills[i].Name == name {
			return &s.Drills[i]
		}
	}
	return nil
}
