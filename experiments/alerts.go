package experiments

import (
	"regexp"
	"slices"
	"time"
)

// Alerts says who is asked which alerts fire.
type Alerts struct {
	PromServer
	API   string        `rule:"words=prometheus|alertmanager,default=prometheus" file:"api"` // prometheus: its rules; alertmanager: what was sent to it, silenced and inhibited alerts too
	Every time.Duration `rule:"positive,default=1s,least=50ms" scale:"no"`                   // longest time between two looks; a quarter of the rules' interval if that is less; not scaled
}

// Words of Alerts.API.
const (
	APIPrometheus   = "prometheus"
	APIAlertmanager = "alertmanager"
)

// AlertLimit is what stands beside SLO.Alert. Times are those of the server's rules, and are not scaled.
type AlertLimit struct {
	Labels         map[string]string `rule:"for=alert"`                 // only alerts with these labels
	Within         time.Duration     `rule:"omit,for=alert" scale:"no"` // it fires at most so long after the fault took effect; of silent: so long after the last fault it is watched
	ResolvesWithin time.Duration     `rule:"omit,for=alert" scale:"no"` // it goes away at most so long after the fault was over; default: within
	Silent         bool              `rule:"omit,for=alert"`            // none of that name fires in the whole run
}

// Fires reports whether an alert with these labels is one of the row.
func (l *AlertLimit) Fires(labels map[string]string) bool {
	for name, value := range l.Labels {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// AlertNames is what the row says of alerts' names: one, or of silent a regular expression for the whole of it.
func (s *SLO) AlertNames() *regexp.Regexp {
	if !s.Silent {
		return regexp.MustCompile("^" + regexp.QuoteMeta(*s.Alert) + "$")
	}
	return regexp.MustCompile("^(?:" + *s.Alert + ")$") // it was checked
}

// AlertRows are the rows about alerts.
func (e *Experiment) AlertRows() []*SLO {
	var rows []*SLO
	for i := range e.SLOs {
		rows = append(rows, &e.SLOs[i])
	}
	for i := range e.Expect {
		rows = append(rows, &e.Expect[i])
	}
	return slices.DeleteFunc(rows, func(s *SLO) bool { return s.Alert == nil })
}

// alertsLate is how long a run waits beyond a limit, so that a look shows what was not there until then.
const alertsLate = 3 * time.Second

// AlertWait is how long after the last fault a run waits for the row, by what is known of its alert: it goes on while it waits.
func (s *SLO) AlertWait(fired, firing bool) time.Duration {
	switch {
	case s.Silent && s.Within == 0, !s.Silent && fired && !firing:
		return 0
	case fired && !s.Silent:
		return s.ResolvesWithin + alertsLate
	}
	return s.Within + alertsLate
}

// alert checks a row about alerts; expected: it stands under expect.
func (c *checker) alert(path string, s *SLO, expected bool) {
	a := c.e.Probes.Alerts
	c.Refuse(a == nil, path+".alert", unasked)
	if s.Lock != "" {
		c.lock(path+".lock", s.Lock)
	}
	switch {
	case c.Refuse(!s.Silent && c.faultless(), path, "fires after a fault, and the file has none: add a fault, or say silent: true"):
		return
	case !s.Silent && s.Within > 0:
		c.faultNamed(path, s.Fault, "fires after which fault?")
		return
	}
	_ = c.Refuse(!s.Silent, path, "alert %s fires how long after the fault at most? Say within", *s.Alert) ||
		c.Refuse(expected, path+".silent", "nothing is provoked by silence: it belongs under slos") ||
		c.Refuse(s.Fault != "" || s.ResolvesWithin != 0, path, "silent is about the whole run: leave fault and resolves_within out") ||
		c.Refuse(a != nil && a.API == APIAlertmanager, path+".silent", "an Alertmanager does not tell whether rules are evaluated, so its silence says nothing: ask the Prometheus (probes.alerts)")
	why := NoPattern(*s.Alert, "")
	c.Refuse(why != "", path+".alert", "%s", why)
}

// unasked is said where an alert is named and nobody is asked for alerts.
const unasked = "nobody is asked for alerts: say where, probes.alerts: {url: \"http://prometheus:9090\"}"
