package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// Namespaces of electors whose logs say who leads.
const (
	honestNamespace   = "honest"
	confusedNamespace = "confused"
)

// toldByLogs asks the logs of electors whether they lead. A line that tells of it was there before the drill, and others come.
func toldByLogs(s *site) string {
	return strings.NewReplacer("      policy:\n", "      belief: {log: {gain: '^I lead now', lose: '^run lock renewal failed'}}\n      policy:\n",
		"{lock: leader, takeover: {max: 12s}}", "{lock: leader, overlap: {level: belief, max: 0s}}\n  - {lock: leader, leaderless: {max: 12s}}").Replace(fmt.Sprintf(electedDrill, s.namespace))
}

// oneLeads: by what the electors' logs say nobody leads beside another, whoever led before the drill; by the shipped Role and no more.
func oneLeads(t *testing.T, s *site) {
	diary := s.elections(t)
	yaml := toldByLogs(s)
	planned := strings.Join(strings.Fields(s.plan(t, yaml)), " ")
	if n := strings.Count(planned, "says that it leads"); n != 1 || strings.Count(planned, "says that it does not") != 2 {
		t.Errorf("plan knows of %d who say that they lead:\n%s", n, planned)
	}
	s.shippedRole(t, yaml)
	o := s.drill(t, yaml, verdict.ExitPass)
	diary.agree(t, s, o, electedLease)
	s.roleFits(t)
	ledWhenTheySay(t, string(diary)+beliefs, historyIn(t, o.dir))
}

// ledWhenTheySay: each line of a log that was read is of an instant at which an elector noted that very change for itself.
func ledWhenTheySay(t *testing.T, file string, h *history.History) {
	t.Helper()
	const slack = int64(20 * time.Millisecond) // a line is printed after it was noted
	origin, told := originOf(t, h), 0
	for _, e := range h.Events {
		if e.Kind != history.BeliefKind || !e.Belief.Direct {
			continue
		}
		told++
		noted := slices.ContainsFunc(strings.Split(string(read(t, file)), "\n"), func(line string) bool {
			var at int64
			var holds bool
			n, _ := fmt.Sscanf(line, "%d %t", &at, &holds)
			return n == 2 && holds == e.Belief.Holds && e.From-slack <= at-origin && at-origin <= e.To+slack
		})
		if !noted || e.Width() > int64(2*time.Second) {
			t.Errorf("%s of %s within %v", e.Belief.By, e.Belief.Incarnation, e.Span)
		}
	}
	if told == 0 {
		t.Error("no line told of a change")
	}
}

// manyLead: an elector that takes any leader for itself is caught by what its log says.
func manyLead(t *testing.T, s *site) {
	s.elections(t, corev1.EnvVar{Name: "CONFUSED", Value: "1"})
	o := s.drill(t, toldByLogs(s), verdict.ExitSLOFailed)
	says(t, o.text, "both said that they held lock leader")
}
