package experiments

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// rule is what a scalar must be like, or that a field must be there. Rules that involve more than one value are in check.go.
type rule struct {
	required  bool
	unless    string   // path of a section with which it is not required
	ident     bool     // a name that can stand in a path, a key and a metric's label
	words     []string // the only values
	positive  bool     // durations and fractions: above 0
	min, max  float64  // whole numbers and fractions; max 0 = no bound but that of 32 bits
	perSecond bool     // spelled as a rate: 20/s
	signed    bool     // durations: may be negative
	quiet     bool     // a resolved file leaves it out where it is zero
}

var classes = []string{"standard", "legacy_count", "critical", "continuity", "legacy_warn"}

// ruleOf is the rule of a field: in its tag, "required,min=1,words=a|b", or in the table.
func ruleOf(owner reflect.Type, f reflect.StructField) rule {
	tag, ok := f.Tag.Lookup("rule")
	if !ok {
		return rules[owner.Name()+"."+f.Name]
	}
	var r rule
	for part := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(part, "=")
		number, err := 0.0, error(nil)
		switch name {
		case "required":
			r.required = true
		case "ident":
			r.ident = true
		case "positive":
			r.positive = true
		case "signed":
			r.signed = true
		case "quiet":
			r.quiet = true
		case "words":
			r.words = strings.Split(value, "|")
		case "min", "max":
			number, err = strconv.ParseFloat(value, 64)
		default:
			err = fmt.Errorf("there is no rule %q", name)
		}
		if err != nil {
			panic(fmt.Sprintf("experiments: field %s.%s: %v", owner.Name(), f.Name, err))
		}
		if name == "min" {
			r.min = number
		} else if name == "max" {
			r.max = number
		}
	}
	return r
}

// rules by type and Go field, of those without a tag.
var rules = map[string]rule{
	"file.APIVersion": {required: true, words: []string{"lockdrill/v1"}},
	"file.Kind":       {required: true, words: []string{"Experiment"}},

	"Experiment.Name":      {required: true, ident: true},
	"Experiment.System":    {required: true},
	"Experiment.TimeScale": {positive: true, max: 1},
	"Experiment.Faults":    {required: true},
	"Experiment.SLOs":      {required: true, unless: "system.policy_sheet"},
	"Experiment.Seed":      {min: 1},

	"Experiment.Environment": {ident: true},
	"Redis.Mode":             {words: []string{"auto", "embedded", "spawn", "external"}},
	"Redis.Allow":            {words: fault.Allowed()},

	"Kubernetes.Pods":  {words: []string{"apply", "use"}},
	"Kubernetes.Grace": {positive: true},
	"Logs.Preset":      {words: []string{PresetLockdrill}},
	"Logs.MaxGap":      {positive: true},

	"System.Mode":     {required: true, words: []string{"embedded", "observe"}},
	"System.Replicas": {required: true, min: 1, max: 1000},
	"System.Locks":    {required: true, unless: "system.policy_sheet"},

	"lockForm.Name":         {required: true, ident: true},
	"overrides.TTL":         {positive: true},
	"overrides.OpTimeout":   {positive: true},
	"overrides.RenewJitter": {max: 1},
	"overrides.Class":       {words: classes},
	"overrides.Poll":        {positive: true},

	"Work.Lock":      {required: true},
	"Work.Jobs":      {required: true, min: 1, max: 1e6},
	"Work.Rate":      {required: true, perSecond: true},
	"Work.Hold":      {required: true},
	"Work.Redeliver": {required: true},
	"Work.Classes":   {ident: true},
	"holdForm.P50":   {required: true, positive: true},
	"holdForm.P99":   {positive: true},

	"SteadyState.Timeout": {positive: true},

	"Fault.ID":         {required: true, ident: true},
	"Fault.For":        {positive: true},
	"repeatForm.Count": {min: 1, max: 1e4},
	"Proxy.Mode":       {words: []string{"embedded", "external"}},

	"ProbeSettings.Every":  {positive: true},
	"ProbeSettings.MaxGap": {positive: true},
	"Metric.Name":          {required: true, ident: true},
	"Metric.Scrape":        {required: true},
	"Metric.Series":        {required: true},
	"Metric.Every":         {positive: true},
	"RunLimits.MaxKills":   {min: 1},
	"RunLimits.MaxTargets": {min: 1},
	"RunLimits.MaxRun":     {positive: true},

	"Window.Days": {words: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}},
	"Window.Zone": {required: true},

	"SLO.Lock":                {required: true},
	"CountLimit.Max":          {required: true},
	"CountLimit.MinJobs":      {min: 1},
	"LogLimit.Pattern":        {required: true},
	"LogLimit.Max":            {required: true},
	"MetricLimit.Name":        {required: true},
	"MetricLimit.AbsentMeans": {words: []string{"zero"}},
	"overlapForm.Level":       {required: true, words: []string{"belief", "work", "effect"}},
	"overlapForm.Max":         {required: true},
	"NotOwnedLimits.Renew":    {max: 1},
	"NotOwnedLimits.Release":  {max: 1},
	"ClassLimits.Class":       {ident: true},

	"sheetLoop.PollInterval": {required: true, positive: true},
	"sheetLoop.LockKey":      {required: true},
	"sheetLoop.LockTTL":      {required: true, positive: true},
	"sheetLoop.ReleaseMode":  {required: true, words: []string{"ttl_hold", "explicit"}},

	"profileFile.Policy":   {required: true},
	"Policy.TTL":           {required: true, positive: true},
	"Policy.RenewJitter":   {max: 1},
	"Policy.Class":         {required: true, words: classes},
	"Policy.OpTimeout":     {positive: true},
	"Policy.MaxFailures":   {min: 1},
	"Policy.Release":       {required: true},
	"Policy.Acquire":       {required: true},
	"Release.Mode":         {required: true, words: []string{"none", "bounded_retry", "single"}},
	"Release.Attempts":     {min: 1},
	"Release.Timeout":      {positive: true},
	"Release.AfterAbandon": {words: []string{"skip", "if_work_stopped"}},
	"Acquire.Mode":         {required: true, words: []string{"try", "wait"}},
	"Acquire.Timeout":      {required: true, positive: true},
	"Acquire.Budget":       {positive: true},
	"Backoff.Mode":         {required: true, words: []string{"fixed", "decorrelated", "wake"}},
	"Backoff.Every":        {required: true, positive: true},
	"Backoff.Cap":          {positive: true},
	"Loop.Poll":            {required: true, positive: true},
	"Loop.Jitter":          {max: 1},
	"Loop.Mode":            {required: true, words: []string{"ttl_hold", "renewed", "explicit"}},
}

// laterFields are fields that the design knows and this version does not have, by type.
var laterFields = map[string][]string{
	"file":   {"schedule", "baseline", "store"},
	"Probes": {"promql"},
	"SLO":    {"stale_writes", "residual", "pickup"},
}
