package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// JobOptions say which drill a Job runs, and when. JobFor fills them from an experiment.
type JobOptions struct {
	Experiment string // its name
	Resolved   []byte // its file, resolved
	Files      map[string][]byte
	Namespace  string // "" = that of whoever applies it
	Image      string
	Account    string   // the ServiceAccount; "" = the one that Role makes for this experiment
	SecretEnv  []string // variables with the names and passwords of the stores
	Secret     string   // the Secret that holds them, each under its variable's name
	Flags      []string // further flags of run
	CleanUp    time.Duration
	MaxRun     time.Duration

	Claim     string // an existing PersistentVolumeClaim for the runs' folders; "" = one is made
	Storage   string // size of the claim that is made
	Ephemeral bool   // no claim: the folders are gone with the pod

	Recover  bool   // Job: undo what runs on the claim have left, and drill nothing
	Release  string // Job: what it is the gate of, part of the Job's name; "" = nothing
	Schedule string // CronJob: five fields of cron, or @daily and its like
	TimeZone string // CronJob: as in the tz database; "" = UTC
}

// Times beyond those that an experiment sets.
const (
	endWithin    = 2 * time.Minute  // stopping replicas, removing them (twice where the API server is away), closing stores, the report
	revertWithin = 15 * time.Second // the limit of undoing one fault
	startWithin  = 5 * time.Minute  // pulling the image, pods that become ready, calibration
	missedAfter  = 10 * time.Minute // a game day that could not start by then is left out: it was announced for an hour
	keptFor      = 7 * 24 * time.Hour
	recoverKept  = 10 * time.Minute // then it can be applied again
)

// JobFor is the drill of e as a Job.
func JobFor(e *experiments.Experiment) (JobOptions, error) {
	k := e.Kubernetes
	if k == nil {
		return JobOptions{}, fmt.Errorf("%w: add a section kubernetes, such as kubernetes: {namespace: staging}; a drill that needs no cluster runs in any CI system: lockdrill export ci", ErrNoPods)
	}
	o := JobOptions{
		Experiment: e.Name, Namespace: k.Namespace, Image: k.Image, SecretEnv: secretEnv(e), Secret: secretOf(e), Storage: "1Gi",
		CleanUp: endWithin + time.Duration(len(e.Faults))*revertWithin, MaxRun: e.Limits.MaxRun,
	}
	if k.Pods == experiments.PodsApply {
		o.CleanUp += k.Grace // the workers are removed, and end
	}
	return o, nil
}

// SummaryName is the ConfigMap in which the last run of an experiment leaves its summary.
func SummaryName(experiment string) string { return ObjectName(experiment) + "-last" }

// RunnerName is the ServiceAccount of the runner of an experiment, and the name of its Role.
func RunnerName(experiment string) string { return ObjectName(experiment) + "-runner" }

type jobSpec struct {
	Backoff  int           `yaml:"backoffLimit"`
	Deadline int64         `yaml:"activeDeadlineSeconds"`
	TTL      int64         `yaml:"ttlSecondsAfterFinished,omitempty"`
	Failure  failurePolicy `yaml:"podFailurePolicy"`
	Template podTemplate   `yaml:"template"`
}

type failurePolicy struct {
	Rules []failureRule `yaml:"rules"`
}

type failureRule struct {
	Action     string         `yaml:"action"`
	Codes      *exitCodes     `yaml:"onExitCodes,omitempty"`
	Conditions []podCondition `yaml:"onPodConditions,omitempty"`
}

type exitCodes struct {
	Container string `yaml:"containerName"`
	Operator  string `yaml:"operator"`
	Values    []int  `yaml:"values,flow"`
}

type podCondition struct {
	Type   string `yaml:"type"`
	Status string `yaml:"status"`
}

type cronJobSpec struct {
	Schedule   string `yaml:"schedule"`
	TimeZone   string `yaml:"timeZone,omitempty"`
	Concurrent string `yaml:"concurrencyPolicy"`
	Suspend    bool   `yaml:"suspend"`
	Starting   int64  `yaml:"startingDeadlineSeconds"`
	Succeeded  int    `yaml:"successfulJobsHistoryLimit"`
	Failed     int    `yaml:"failedJobsHistoryLimit"`
	Template   struct {
		Metadata meta    `yaml:"metadata"`
		Spec     jobSpec `yaml:"spec"`
	} `yaml:"jobTemplate"`
}

type claimSpec struct {
	Access    []string             `yaml:"accessModes,flow"`
	Resources map[string]claimSize `yaml:"resources"`
}

type claimSize struct {
	Storage string `yaml:"storage"`
}

const jobNote = `The Job ends as lockdrill does, and is not tried again: a status is an answer. Only a pod that the cluster took away while it drilled,
and that broke nothing, is replaced; what it left undone refuses the next run (13) until lockdrill recover.`

// Job is a drill that runs once: the gate of a release. One YAML document each: ConfigMap, PersistentVolumeClaim if one is made, Job.
func Job(o JobOptions) ([][]byte, error) {
	id := o.Experiment
	if o.Release != "" {
		id += "-" + o.Release
	}
	objects, pod, err := o.parts()
	if err != nil {
		return nil, fmt.Errorf("job of %s: %w", o.Experiment, err)
	}
	spec := o.job(pod)
	spec.TTL = seconds(keptFor)
	if o.Recover {
		id += "-recover"
		spec.TTL = seconds(recoverKept)
	}
	m := o.meta(ObjectName(id))
	if o.Release != "" {
		m.Labels["lockdrill.dev/release"] = LabelValue(o.Release)
	}
	return documents(append(objects, manifest{note: jobNote, APIVersion: "batch/v1", Kind: "Job", Metadata: m, Spec: spec}))
}

// CronJob is a drill that runs by a schedule: a game day. One YAML document each: ConfigMap, PersistentVolumeClaim if one is made,
// CronJob.
func CronJob(o JobOptions) ([][]byte, error) {
	objects, err := cronJob(o)
	if err != nil {
		return nil, fmt.Errorf("cronjob of %s: %w", o.Experiment, err)
	}
	return documents(objects)
}

func cronJob(o JobOptions) ([]manifest, error) {
	if !schedule.MatchString(o.Schedule) {
		return nil, fmt.Errorf("schedule %q: want five fields (minute, hour, day of month, month, day of week), such as \"0 3 * * 1-5\", or @daily", o.Schedule)
	}
	objects, pod, err := o.parts()
	if err != nil {
		return nil, err
	}
	spec := cronJobSpec{
		Schedule: o.Schedule, TimeZone: cmp.Or(o.TimeZone, "Etc/UTC"), Concurrent: "Forbid", Starting: seconds(missedAfter), Succeeded: 3, Failed: 10,
	}
	m := o.meta(ObjectName(o.Experiment))
	spec.Template.Metadata.Labels, spec.Template.Spec = m.Labels, o.job(pod)
	return append(objects, manifest{note: jobNote, APIVersion: "batch/v1", Kind: "CronJob", Metadata: m, Spec: spec}), nil
}

var schedule = regexp.MustCompile(`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9*/,?-]+( +[0-9*/,?-]+){2} +[0-9A-Za-z*/,?-]+ +[0-9A-Za-z*/,?-]+)$`)

// job is what a Job and a CronJob have in common.
func (o *JobOptions) job(pod podSpec) jobSpec {
	codes := func(values ...int) *exitCodes { return &exitCodes{runnerContainer, "In", values} }
	var answers []int
	for _, e := range verdict.Exits() {
		if e.Code != verdict.ExitPass && e.Code != verdict.ExitAborted {
			answers = append(answers, e.Code)
		}
	}
	return jobSpec{
		Deadline: seconds(o.MaxRun + startWithin + o.CleanUp),
		// In this order: an answer, or a fault that may be live (dirty), stays one although the pod was taken away as well.
		Failure: failurePolicy{[]failureRule{
			{Action: "FailJob", Codes: codes(answers...)},
			{Action: "Ignore", Conditions: []podCondition{{"DisruptionTarget", "True"}}},
			{Action: "FailJob", Codes: codes(verdict.ExitAborted)}, // and not by the cluster
		}},
		Template: podTemplate{Metadata: meta{Labels: o.meta("").Labels, Annotations: map[string]string{keep: "false"}}, Spec: pod},
	}
}

// keep is the annotation by which the autoscaler leaves the node of a drill alone until it is over.
const keep = "cluster-autoscaler.kubernetes.io/safe-to-evict"

func (o *JobOptions) meta(name string) meta {
	return meta{Name: name, Namespace: o.Namespace, Labels: map[string]string{NameLabel: runnerName, "lockdrill.dev/experiment": LabelValue(o.Experiment)}}
}

// parts are what stands beside the Job, and its pod.
func (o *JobOptions) parts() ([]manifest, podSpec, error) {
	switch {
	case o.Image == "":
		return nil, podSpec{}, fmt.Errorf("%w: kubernetes.image, or --image, names the image with lockdrill", ErrNoPods)
	case o.Ephemeral && (o.Claim != "" || o.Recover):
		return nil, podSpec{}, errors.New("either a claim keeps the runs' folders, or nothing does, and then there is nothing to recover")
	}
	base := o.meta(ObjectName(o.Experiment) + "-drill")
	objects := []manifest{configMap(base, o.Resolved, o.Files)}
	results := volume{Name: "results", EmptyDir: &struct{}{}}
	if !o.Ephemeral {
		claim := o.Claim
		if claim == "" {
			m := o.meta(ObjectName(o.Experiment) + "-results")
			claim = m.Name
			objects = append(objects, manifest{
				note:       "The runs' folders: reports, histories, and the undo journals by which a later run, or lockdrill recover, knows what is left.",
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Metadata: m,
				Spec: claimSpec{Access: []string{"ReadWriteOnce"}, Resources: map[string]claimSize{"requests": {cmp.Or(o.Storage, "1Gi")}}},
			})
		}
		results = volume{Name: "results", Claim: map[string]string{"claimName": claim}}
	}
	return objects, o.pod(base.Name, results), nil
}

// runnerContainer is the container whose exit status counts.
const runnerContainer = "lockdrill"

func (o *JobOptions) pod(experiment string, results volume) podSpec {
	args := []string{
		"run", FilesDir + "/" + experimentKey, "--confirm", o.Experiment, "--summary-configmap", SummaryName(o.Experiment),
		"--result-file", "/dev/termination-log", // kubectl describe shows the verdict's word
	}
	args = append(args, o.Flags...)
	if o.Recover {
		args = []string{"recover", "--all"}
	}
	return podSpec{
		ServiceAccount: cmp.Or(o.Account, RunnerName(o.Experiment)),
		Automount:      true,
		RestartPolicy:  "Never", // podFailurePolicy asks for it
		Grace:          seconds(o.CleanUp),
		Security:       restrictedPod(),
		Containers: []container{{
			Name: runnerContainer, Image: o.Image, PullPolicy: "IfNotPresent", Command: []string{"lockdrill"}, Args: args,
			WorkingDir: resultsDir, Env: fromSecret(cmp.Or(o.Secret, DefaultSecret), o.SecretEnv), Resources: modest("512Mi"), Security: restrictedContainer(),
			Mounts: []mount{
				{Name: "experiment", Path: FilesDir, ReadOnly: true},
				{Name: "results", Path: resultsDir},
				{Name: "tmp", Path: "/tmp"},
			},
		}},
		Volumes: []volume{
			{Name: "experiment", ConfigMap: map[string]string{"name": experiment}},
			results,
			{Name: "tmp", EmptyDir: &struct{}{}},
		},
	}
}

// resultsDir is where runs/ is.
const resultsDir = "/results"

// hostPort is where a URL leads, without the rest of it.
func hostPort(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	at, _, _ := strings.Cut(rest, "/")
	return at
}
