package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// JobOptions say which drill a Job runs, and when. Drill fills in what an experiment says.
type JobOptions struct {
	Experiment string // its name
	Resolved   []byte // its file, resolved
	Files      map[string][]byte
	Namespace  string // "" = that of whoever applies it
	Image      string
	Pod        experiments.PodPatch
	Account    string   // the ServiceAccount; "" = the one that Role makes for this experiment
	SecretEnv  []string // all variables that the experiment names
	Secret     string   // the Secret that holds them, each under its variable's name
	Flags      []string // further flags of run
	Upload     string   // address of a server that gets each run; its token is in the Secret, as UploadTokenEnv; "" = none
	CleanUp    time.Duration
	MaxRun     time.Duration

	Claim     string // an existing PersistentVolumeClaim for the runs' folders; "" = one is made
	Storage   string // size of the claim that is made
	Ephemeral bool   // no claim: the folders are gone with the pod

	Recover  bool   // Job: undo what runs on the claim have left, and drill nothing
	Release  string // Job: what it is the gate of, part of the Job's name; "" = nothing
	Suspend  bool   // Job: it waits until somebody sets spec.suspend to false
	Plan     string // Job: the only hash that is run; "" = any
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

// UploadTokenEnv is the variable with the token for the server of JobOptions.Upload.
const UploadTokenEnv = "LOCKDRILL_UPLOAD_TOKEN"

// UploadWithin bounds what a run waits for that server after its end.
const UploadWithin = 15 * time.Minute

// Drill fills in what e says of its drill.
func (o *JobOptions) Drill(e *experiments.Experiment) error {
	k := e.Kubernetes
	if k == nil {
		return fmt.Errorf("%w: add a section kubernetes, such as kubernetes: {namespace: staging}; a drill that needs no cluster runs in any CI system: lockdrill export ci", ErrNoPods)
	}
	file, err := experiments.Marshal(e)
	if err != nil {
		return err
	}
	secrets := experiments.VariablesIn(file)
	slices.Sort(secrets)
	o.Experiment, o.Namespace, o.Image, o.Pod, o.SecretEnv, o.Secret = e.Name, k.Namespace, k.Image, k.Pod, slices.Compact(secrets), secretOf(e)
	o.CleanUp, o.MaxRun = endWithin+time.Duration(len(e.Faults))*revertWithin, e.Limits.MaxRun
	if k.Pods == experiments.PodsApply {
		o.CleanUp += k.Grace // the workers are removed, and end
	}
	return nil
}

// SummaryName is the ConfigMap in which the last run of an experiment leaves its summary.
func SummaryName(experiment string) string { return ObjectName(experiment) + "-last" }

// RunnerName is the ServiceAccount of the runner of an experiment, and the name of its Role.
func RunnerName(experiment string) string { return ObjectName(experiment) + "-runner" }

// Job is a drill that runs once: the gate of a release. One YAML document each: ConfigMap, PersistentVolumeClaim if one is made, Job.
func Job(o JobOptions) ([][]byte, error) {
	o.Schedule = ""
	docs, err := o.manifests()
	if err != nil {
		return nil, fmt.Errorf("job of %s: %w", o.Experiment, err)
	}
	return docs, nil
}

// CronJob is a drill that runs by a schedule: a game day. One YAML document each: ConfigMap, PersistentVolumeClaim if one is made,
// CronJob.
func CronJob(o JobOptions) ([][]byte, error) {
	if err := CheckCron(o.Schedule); err != nil {
		return nil, fmt.Errorf("cronjob of %s: %w", o.Experiment, err)
	}
	docs, err := o.manifests()
	if err != nil {
		return nil, fmt.Errorf("cronjob of %s: %w", o.Experiment, err)
	}
	return docs, nil
}

// jobFields are what the templates of a Job are filled in with.
type jobFields struct {
	JobOptions
	Job, Meta meta  // of the Job or CronJob, of its ConfigMap
	NewClaim  *meta // nil = none is made
	Labels    map[string]string
	Args      []string
	Data      map[string]string
	Deadline  time.Duration
	Kept      time.Duration // after it is over; 0 = the CronJob decides
	Missed    time.Duration
	Answers   []int // exit statuses that no further pod would change
	Aborted   int
	Spec      string // of the Job

	TokenEnv     string // of the drill alone; "" = it uploads nothing
	RecoverFirst bool   // in an init container: what earlier runs on the claim have left
}

func (o JobOptions) manifests() ([][]byte, error) {
	switch {
	case o.Image == "":
		return nil, fmt.Errorf("%w: kubernetes.image, or --image, names the image with lockdrill", ErrNoPods)
	case o.Ephemeral && (o.Claim != "" || o.Recover):
		return nil, errors.New("either a claim keeps the runs' folders, or nothing does, and then there is nothing to recover")
	}
	base := ObjectName(o.Experiment)
	labels := map[string]string{NameLabel: runnerName, "lockdrill.dev/experiment": LabelValue(o.Experiment)}
	o.Account, o.Secret = cmp.Or(o.Account, RunnerName(o.Experiment)), cmp.Or(o.Secret, DefaultSecret)
	o.Storage, o.TimeZone = cmp.Or(o.Storage, "1Gi"), cmp.Or(o.TimeZone, "Etc/UTC")
	f := jobFields{
		JobOptions: o, Labels: labels, Job: meta{base, o.Namespace, maps.Clone(labels)}, Meta: meta{base + "-drill", o.Namespace, labels},
		Data: filesOf(o.Resolved, o.Files), Args: o.args(), Deadline: o.MaxRun + startWithin + o.CleanUp, Missed: missedAfter,
		Aborted: verdict.ExitAborted, RecoverFirst: !o.Ephemeral && !o.Recover,
	}
	if o.Upload != "" && !o.Recover {
		f.TokenEnv = UploadTokenEnv
		f.Deadline += UploadWithin
	}
	for _, e := range verdict.Exits() {
		if e.Code != verdict.ExitPass && e.Code != verdict.ExitAborted {
			f.Answers = append(f.Answers, e.Code)
		}
	}
	if !o.Ephemeral && o.Claim == "" {
		f.Claim, f.NewClaim = base+"-results", &meta{base + "-results", o.Namespace, labels}
	}
	if o.Schedule == "" {
		f.once()
	}
	spec, err := execute(f, "kube/drill.yaml", "kube/parts.yaml")
	if err != nil {
		return nil, err
	}
	f.Spec = string(spec)
	return podManifests("job", f, f.Pod)
}

// once names a Job that no CronJob makes, and says how long it is kept.
func (f *jobFields) once() {
	id := f.Experiment
	f.Kept = keptFor
	if f.Release != "" {
		id += "-" + f.Release
		f.Job.Labels["lockdrill.dev/release"] = LabelValue(f.Release)
	}
	if f.Recover {
		id += "-recover"
		f.Kept = recoverKept
	}
	f.Job.Name = ObjectName(id)
}

func (o JobOptions) args() []string {
	if o.Recover {
		return []string{"recover", "--all"}
	}
	args := append([]string{
		"run", FilesDir + "/" + experimentKey, "--confirm", o.Experiment, "--summary-configmap", SummaryName(o.Experiment),
		"--result-file", "/dev/termination-log", // kubectl describe shows the verdict's word
	}, o.Flags...)
	if o.Plan != "" {
		args = append(args, "--plan", o.Plan)
	}
	if o.Upload != "" {
		args = append(args, "--upload", o.Upload)
	}
	return args
}

// hostPort is where a URL leads, without the rest of it.
func hostPort(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	at, _, _ := strings.Cut(rest, "/")
	return at
}
