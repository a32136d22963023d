package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/watching"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/reports"
)

const tellEvery = 10 * time.Second // where the story is no terminal

// watchDoc is the document of `watch -f json`.
type watchDoc struct {
	SchemaVersion int `json:"schemaVersion"`
	watching.State
	Sums  []string `json:"sums"`
	Draft string   `json:"draft,omitempty"` // the text of an experiment; "" = nothing was seen that one could strike
}

type watchFlags struct {
	draftFlags
	cluster drill.Cluster
	keys    []string
	leases  []string
	length  time.Duration
	file    string
	exporting
}

func newWatchCmd(io streams) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "See who holds which lock of a running service, and touch nothing",
		Long: "watch looks at the locks of a running service: who holds them, how long their leases are, how often they are renewed, how they\n" +
			"end. It makes no fault and writes nothing to any server. It shows fingerprints of values, not the values. At its end, or at\n" +
			"Ctrl-C, it says what a crash of each holder would cost, and drafts an experiment. It takes a key for a lock if the key has an\n" +
			"expiry and holds a text, or a hash in the form of Redisson.\n\n" +
			"With --listen it goes on until Ctrl-C, and serves Prometheus metrics of what it sees (docs/alerts.md).\n\n" +
			"Exit status 11: no lock was seen, or --draft was given and nothing could be drafted.",
		Example: "  lockdrill watch --redis redis://127.0.0.1:6379 --keys 'sched:*' --draft sched.lockdrill.yaml\n" +
			"  lockdrill watch --redis redis://127.0.0.1:6379 --keys 'sched:*' --listen 127.0.0.1:9460\n" +
			"  lockdrill watch --namespace shop --lease billing-leader",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	format := formFlags(cmd, io)
	f.add(flags)
	whereFlags(flags, &f.cluster)
	flags.StringVarP(&f.cluster.Namespace, "namespace", "n", "", "watch the Lease objects of this namespace, and not a Redis")
	flags.StringArrayVar(&f.keys, "keys", nil, "name or pattern of keys, as SCAN has it: 'sched:*' (needed with --redis); may be repeated")
	flags.StringArrayVar(&f.leases, "lease", nil, "name of a Lease object (default: all of the namespace); may be repeated")
	flags.DurationVar(&f.length, "for", time.Minute, "how long; with --listen: without end, if this is not said")
	flags.StringVar(&f.addr, "listen", "", "serve metrics for Prometheus at this HOST:PORT, and print nothing else")
	flags.StringVar(&f.holder, "holder", "", "with --listen: finds the holder's name in the value, as the group holder: '^(?P<holder>[^:]+)'; its matches are shown")
	flags.StringVar(&f.file, "draft", "", "write the drafted experiment to this new file, and do not print it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		holder, err := f.exporting.named(f.file, *format)
		if err != nil {
			return err
		}
		w, err := f.watcher(holder)
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(cmd.Context(), f.length)
		if f.addr != "" && !cmd.Flags().Changed("for") {
			ctx, stop = context.WithCancel(cmd.Context())
		}
		defer stop()
		if f.addr != "" {
			return f.export(ctx, io, w)
		}
		view := newWatchView(io.Err)
		var last watching.State
		err = w.Watch(ctx, func(s watching.State) {
			last = s
			view.show(s)
		})
		view.clear()
		if err != nil {
			return usagef("watch: %w", err)
		}
		return f.tell(io, *format, last)
	}
	return cmd
}

// watcher checks the flags, and dials nothing.
func (f *watchFlags) watcher(holder *regexp.Regexp) (*watching.Watcher, error) {
	switch leases := f.cluster.Namespace != "" || len(f.leases) > 0; {
	case f.length <= 0:
		return nil, usagef("--for %s: want a length above 0", f.length)
	case leases && f.Redis.URL != "":
		return nil, usagef("lockdrill watch: --redis looks at keys, and --namespace and --lease at Lease objects: give one of the two")
	case !leases && f.Redis.URL == "":
		return nil, usagef("lockdrill watch: where are the locks? Say --redis redis://host:6379 --keys 'sched:*', or --namespace NAME, or --lease NAME")
	case !leases && len(f.keys) == 0:
		return nil, usagef("lockdrill watch: which keys? Say --keys 'sched:*'; '*' alone looks at every key of the server")
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.file != "" {
		if err := notThere(f.file, f.force); err != nil {
			return nil, err
		}
	}
	o := watching.Options{Redis: f.Redis, Patterns: f.keys, Leases: f.leases, Holder: holder, Clock: monotime.Now}
	o.Cluster.Kubeconfig, o.Cluster.Context, o.Cluster.Namespace = f.cluster.Kubeconfig, f.cluster.Context, f.cluster.Namespace
	w, err := watching.New(o)
	if err != nil {
		return nil, usagef("watch: %w", err)
	}
	f.Namespace = w.Namespace()
	return w, nil
}

// tell prints what was seen, what it costs, and the draft.
func (f *watchFlags) tell(io streams, format output, s watching.State) error {
	d := f.Draft
	d.Locks = s.Draft()
	d.From = fmt.Sprintf("Drafted from what lockdrill watch saw in %s.", figures.Short(int64(s.For)))
	text, err := d.Text()
	doc := watchDoc{SchemaVersion: 1, State: s, Sums: []string{}, Draft: string(text)}
	for i := range s.Rows {
		doc.Sums = append(doc.Sums, s.Rows[i].Sum(s.Every))
	}
	if format == outputJSON {
		if err := writeJSON(io.Out, doc); err != nil {
			return err
		}
	} else {
		f.print(io, &doc)
	}
	switch {
	case len(s.Rows) == 0:
		fmt.Fprintln(io.Err, f.nothing(&s))
		return status(verdict.ExitInconclusive)
	case err != nil:
		if errors.Is(err, draft.ErrNothing) {
			err = errors.New(f.undrafted(&s))
		}
		fmt.Fprintf(io.Err, "no draft: %v\n", err)
		if f.file != "" {
			return status(verdict.ExitInconclusive)
		}
		return nil
	case f.file != "":
		return writeDraft(io, &d, f.file, f.force)
	}
	return nil
}

func (f *watchFlags) nothing(s *watching.State) string {
	if s.Looks == 0 {
		return "no lock was seen: the first look was not over when the watch ended, so nothing is known; is the server slow, or this machine? Watch for longer (--for)"
	}
	if s.Failed > 0 {
		return reports.Harmless(fmt.Sprintf("no lock was seen, and that says little: %s of %s failed, the last one: %s", figures.Count(s.Failed), figures.Plural(s.Looks, "look"), s.Why))
	}
	if f.cluster.Namespace != "" || len(f.leases) > 0 {
		named := strings.Join(append([]string{""}, f.leases...), " ")
		return reports.Harmless("no lock was seen: no Lease object" + named + " of namespace " + f.Namespace + " is there and held")
	}
	why := "no lock was seen: no key that matches " + strings.Join(f.keys, " or ") + " held a text, or a hash as Redisson has it, with an expiry"
	if s.Keys > 0 {
		why += fmt.Sprintf(" (%s seen)", figures.Plural(s.Keys, "key"))
	}
	return why + "; is the pattern right, and the database?"
}

// undrafted says why locks that were seen make no draft, and what does.
func (f *watchFlags) undrafted(s *watching.State) string {
	for i := range s.Rows {
		if r := &s.Rows[i]; r.TTL == 0 && !r.NoExpiry && r.Draftable() {
			at := "--redis " + f.Redis.URL
			lock := " --lock '" + r.Name + "'"
			if r.Lease {
				at, lock = "--namespace "+f.Namespace, " --lease "+r.Name
			}
			return reports.Harmless("no lease was granted or renewed meanwhile, so no TTL is known. Watch for longer (--for), or say it: lockdrill init " + at + lock + " --ttl TTL")
		}
	}
	return "no lock was seen that a file can have: it needs an expiry, and a name without spaces, braces, stars, backslashes and quotes"
}

func (f *watchFlags) print(io streams, doc *watchDoc) {
	fmt.Fprint(io.Out, watchTable(&doc.State))
	if len(doc.Sums) > 0 {
		fmt.Fprintln(io.Out, "\nWhat a crash of the holder costs")
	}
	for _, sum := range doc.Sums {
		tell(io.Out, "- "+reports.HarmlessLine(sum))
	}
	if s := &doc.State; s.Failed > 0 {
		fmt.Fprintf(io.Out, "\n%s of %s failed, the last one: %s\n", figures.Count(s.Failed), figures.Plural(s.Looks, "look"), reports.Harmless(s.Why))
	}
	if doc.State.TooMany {
		fmt.Fprintln(io.Out, "\nMore keys match than watch looks at: name fewer by --keys.")
	}
	if doc.Draft != "" && f.file == "" {
		fmt.Fprint(io.Out, "\nA draft of an experiment (--draft FILE writes it)\n\n"+reports.Harmless(doc.Draft))
	}
}

// watchTable is the state as lines.
func watchTable(s *watching.State) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tHOLDER\tTTL LEFT\tTTL\tRENEWED EVERY\tGRANTS\tRELEASED\tEXPIRED\tTAKEN")
	for i := range s.Rows {
		r := &s.Rows[i]
		holder, left := r.Holder, "-"
		switch {
		case r.Job():
			holder = fmt.Sprintf("%d of %d held", r.Held, r.Keys)
		case r.Held == 0:
			holder = "free"
		case r.NoExpiry:
			left = "no end"
		default:
			left = figures.Short(int64(r.Left))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n", reports.HarmlessLine(r.Name), holder, left, seen(r.TTL), seen(r.RenewEvery), r.Grants, r.Releases, r.Expiries, r.Taken)
	}
	_ = w.Flush() // into memory
	fmt.Fprintf(&b, "watched for %s, a look every %s\n", figures.Short(int64(s.For)), figures.Short(int64(s.Every)))
	return b.String()
}

func seen(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return figures.Short(int64(d))
}

// watchView shows a watch while it goes on: a table in place on a terminal, else a line now and then.
type watchView struct {
	w     io.Writer
	live  bool
	lines int // on the screen
	last  time.Duration
}

func newWatchView(w io.Writer) *watchView {
	_, live := terminal(w)
	return &watchView{w: w, live: live}
}

func (v *watchView) show(s watching.State) {
	every := tellEvery
	if v.live {
		every = redrawEvery
	}
	if s.For-v.last < every {
		return
	}
	v.last = s.For
	if !v.live {
		held, renewals, expiries, taken := 0, 0, 0, 0
		for i := range s.Rows {
			r := &s.Rows[i]
			held, renewals, expiries, taken = held+r.Held, renewals+r.Renewals, expiries+r.Expiries, taken+r.Taken
		}
		fmt.Fprintf(v.w, "%s: %s of keys, %d held; %s, %d expired without a release, %d taken\n", figures.Short(int64(s.For)), figures.Plural(len(s.Rows), "row"), held,
			figures.Plural(renewals, "renewal"), expiries, taken)
		return
	}
	v.clear()
	width, _ := terminal(v.w)
	for line := range strings.Lines(watchTable(&s)) {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > width-1 {
			line = string(runes[:width-1]) + "\n"
		}
		fmt.Fprint(v.w, line)
		v.lines++
	}
}

// clear takes the table off the screen.
func (v *watchView) clear() {
	if v.lines > 0 {
		fmt.Fprintf(v.w, "\x1b[%dA\x1b[J", v.lines)
		v.lines = 0
	}
}
