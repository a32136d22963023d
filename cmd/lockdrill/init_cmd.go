package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// draftFlags say what is known of a system before it was watched.
type draftFlags struct {
	draft.Draft
	force bool
}

func (f *draftFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Redis.URL, "redis", "", "the Redis of the locks: redis://host:6379/0, or rediss:// (TLS), without a password")
	flags.StringVar(&f.Redis.UsernameEnv, "username-env", "", "name of the environment variable that holds the user name of that Redis")
	flags.StringVar(&f.Redis.PasswordEnv, "password-env", "", "name of the environment variable that holds its password")
	flags.StringVar(&f.Redis.CA, "ca", "", "PEM file of the authority that signed its certificate")
	flags.StringVar(&f.Redis.Cert, "cert", "", "PEM file of the certificate that it asks for")
	flags.StringVar(&f.Redis.Key, "key", "", "PEM file of the key of that certificate")
	flags.BoolVar(&f.Redis.Cluster, "cluster", false, "that Redis is a server of a cluster: all of it is meant")
	flags.StringVar(&f.Name, "name", "", "of the experiment")
	flags.StringVar(&f.Environment, "environment", "", "what the target calls itself (default staging)")
	flags.IntVar(&f.Replicas, "replicas", 0, "how many replicas run in the steady state")
	flags.StringVar(&f.Processes.Match, "match", "", "regular expression that the command lines of the replicas match")
	flags.StringVar(&f.Processes.PIDFiles, "pid-files", "", "where their pids are: /run/sched/{name}.pid")
	flags.StringVar(&f.Processes.Unit, "unit", "", "their systemd unit: scheduler@{name}.service")
	flags.StringVar(&f.Processes.Cgroup, "cgroup", "", "their cgroup: sched/{name}")
	flags.StringToStringVar(&f.Selector, "selector", nil, "labels of the replicas' pods, as app=web,tier=front")
	flags.BoolVar(&f.Monitor, "allow-monitor", false, "the drill may use MONITOR for moments, to find the connection that renews a key: for keys whose values name nobody")
	flags.BoolVar(&f.force, "force", false, "overwrite the file if it is there")
}

// check says what is wrong with the way to the Redis; nothing is dialled.
func (f *draftFlags) check() error {
	if f.Redis.URL == "" {
		return nil
	}
	f.Redis.Mode = experiments.RedisExternal
	var problems experiments.Problems
	if err := f.Redis.Check(); errors.As(err, &problems) {
		return usagef("--redis: %s", problems[0].Message)
	}
	return nil
}

func newInitCmd(io streams) *cobra.Command {
	var f draftFlags
	var from, ttl, renew, poll, profile, stream, mapped string
	var locks, leases []string
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a first experiment for your service",
		Long: "init writes an experiment with comments, and beside it the schema that editors read. You say what you know by flags. On a\n" +
			"terminal it asks for what is missing, and it marks what it had to assume with CHECK. With --from it starts from a shipped\n" +
			"scenario, under the name of the file. FILE is NAME.lockdrill.yaml by default. lockdrill watch --draft FILE writes such a file from a running service.",
		Example: `  lockdrill init --redis redis://127.0.0.1:6379 --lock sched:leader --ttl 60s --match 'sched\.py'
  lockdrill init --from first-drill mine.lockdrill.yaml`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	f.add(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "of the replicas' pods")
	flags.StringVar(&from, "from", "", "a shipped scenario, or a file, to start from; of the other flags only --name goes with it")
	flags.StringArrayVar(&locks, "lock", nil, "KEY or NAME=KEY of a leader's lock; with a star for the job: the pattern of job locks; may be repeated")
	flags.StringArrayVar(&leases, "lease", nil, "name of a Lease object that is a lock; may be repeated")
	flags.StringVar(&ttl, "ttl", "", "TTL of these locks, such as 60s")
	flags.StringVar(&renew, "renew-every", "", "how often their holders renew them; 0s: never")
	flags.StringVar(&poll, "poll", "", "how often the others try")
	flags.StringVar(&profile, "profile", "", "a shipped policy instead of these times: "+strings.Join(experiments.ProfileNames(), ", "))
	flags.StringVar(&stream, "effects-stream", "", "Redis stream that tells of the jobs under the job lock")
	flags.StringVar(&mapped, "effects-map", "job=job,state=state,terminal=SUCCEEDED|FAILED", "which field of the stream means what")
	_ = cmd.RegisterFlagCompletionFunc("from", completed(scenarioNames))
	_ = cmd.RegisterFlagCompletionFunc("profile", completed(experiments.ProfileNames))
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		file := fileOr(args, f.Name, from, "my-service")
		if err := notThere(file, f.force); err != nil {
			return err
		}
		if from != "" {
			return copyScenario(io, from, nameFor(f.Name, file), file, f.force)
		}
		if err := f.times(ttl, renew, poll, profile, locks, leases); err != nil {
			return err
		}
		if err := f.told(stream, mapped); err != nil {
			return err
		}
		if isTerminal(io.In) && isTerminal(io.Err) {
			f.Ask(io.In, io.Err)
			file = fileOr(args, f.Name, "my-service")
		}
		if len(f.Locks) == 0 {
			return usagef("lockdrill init: which lock? Say --lock NAME=KEY or --lease NAME, start from a scenario (--from first-drill), or see what runs: lockdrill watch")
		}
		if err := f.check(); err != nil {
			return err
		}
		f.From = "Written by lockdrill init."
		return writeDraft(io, &f.Draft, file, f.force)
	}
	return cmd
}

// fileOr is the file that is to be written.
func fileOr(args []string, names ...string) string {
	if len(args) > 0 {
		return args[0]
	}
	for _, name := range names {
		if name != "" {
			return strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)) + ".lockdrill.yaml"
		}
	}
	return ""
}

// times makes locks of the flags.
func (f *draftFlags) times(ttl, renew, poll, profile string, locks, leases []string) error {
	var model draft.Lock
	for _, t := range []struct {
		flag, text string
		to         *time.Duration
	}{{"ttl", ttl, &model.TTL}, {"renew-every", renew, &model.RenewEvery}, {"poll", poll, &model.Poll}} {
		if t.text == "" {
			continue
		}
		d, err := time.ParseDuration(t.text)
		if err != nil || d < 0 {
			return usagef("--%s %q: want a duration such as 500ms, 30s or 2m", t.flag, t.text)
		}
		*t.to = d
	}
	if model.Profile = profile; profile != "" {
		if _, err := experiments.Profile(profile); err != nil {
			return usagef("--profile: %w", err)
		}
	}
	for _, text := range locks {
		l := model
		name, key, named := strings.Cut(text, "=")
		if !named {
			name, key = "", text
		}
		l.Name = name
		if prefix, suffix, job := strings.Cut(key, "*"); job {
			l.KeyPrefix, l.KeySuffix = prefix, suffix
		} else {
			l.Key = key
		}
		if l.Key+l.KeyPrefix+l.KeySuffix == "" {
			return usagef("--lock %q: want KEY or NAME=KEY", text)
		}
		f.Locks = append(f.Locks, l)
	}
	for _, name := range leases {
		l := model
		l.Lease = name
		f.Locks = append(f.Locks, l)
	}
	return nil
}

// told makes effects of the flags, for the first lock that is taken per job.
func (f *draftFlags) told(stream, mapped string) error {
	if stream == "" {
		return nil
	}
	x := experiments.Effects{Name: "jobs", Stream: stream}
	for _, pair := range strings.Split(mapped, ",") {
		word, field, _ := strings.Cut(pair, "=")
		switch word {
		case "job":
			x.Map.Job = field
		case "state":
			x.Map.State = field
		case "terminal":
			x.Map.Terminal = strings.Split(field, "|")
		default:
			return usagef("--effects-map %q: there are job, state and terminal, as in job=job_id,state=status,terminal=DONE|FAILED", pair)
		}
	}
	for i := range f.Locks {
		if l := &f.Locks[i]; l.Job() {
			if l.Name == "" {
				l.Name = "job"
			}
			x.Lock = l.Name
			f.Effects = []experiments.Effects{x}
			return nil
		}
	}
	return usagef("--effects-stream tells of jobs, and no lock is taken per job: --lock 'job=sched:job:*'")
}

// writeDraft writes a draft and the schema beside it.
func writeDraft(io streams, d *draft.Draft, file string, force bool) error {
	d.Name = nameFor(d.Name, file)
	data, err := d.Text()
	if err != nil {
		return usagef("%s would be no experiment:\n%w", file, err)
	}
	return writeFirst(io, file, data, force)
}

// nameFor is the name of a new experiment: the one that was given, else its file's.
func nameFor(name, file string) string {
	if name != "" {
		return name
	}
	return draft.NameOf(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), ".lockdrill"))
}

var nameLine = regexp.MustCompile(`(?m)^name: .*$`)

// copyScenario writes a shipped scenario, or another file, under a name of its own.
func copyScenario(io streams, from, name, file string, force bool) error {
	data, err := experimentSource(from)
	if err != nil {
		return err
	}
	data = nameLine.ReplaceAll(data, []byte("name: "+name))
	if !strings.Contains(string(data), "# yaml-language-server:") {
		data = append([]byte(experiments.Modeline), data...)
	}
	if _, err := experiments.Parse(file, data); err != nil {
		return usagef("%w", err)
	}
	return writeFirst(io, file, data, force)
}

// writeFirst writes a new experiment, and the schema where there is none beside it.
func writeFirst(io streams, file string, data []byte, force bool) error {
	if err := notThere(file, force); err != nil {
		return err
	}
	if err := writeAtomically(file, data); err != nil {
		return usagef("%w", err)
	}
	if n := experiments.UnsaidIn(data); n > 0 {
		fmt.Fprintf(io.Err, "wrote %s; next: say what %s (%s...), then lockdrill validate %s\n", file, figures.Plural(n, "value")+" must be", experiments.Unsaid, file)
	} else {
		fmt.Fprintf(io.Err, "wrote %s; next: lockdrill validate %s\n", file, file)
	}
	schema := filepath.Join(filepath.Dir(file), experiments.SchemaFile)
	if _, err := os.Lstat(schema); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	text, err := experiments.Schema()
	if err != nil {
		return err
	}
	fmt.Fprintf(io.Err, "wrote %s, by which editors complete and check it\n", schema)
	return writeAtomically(schema, text)
}

// notThere refuses to overwrite what somebody may have worked on.
func notThere(file string, force bool) error {
	if _, err := os.Lstat(file); err == nil && !force {
		return usagef("%s is there already: name another file, or say --force", file)
	}
	return nil
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
