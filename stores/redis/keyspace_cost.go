package redis

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// costs are what the servers were asked, and what they had used when they were joined first.
type costs struct {
	commands, messages int64 // of connections that are closed
	began              int64
	first              map[string]usage // by address
}

// usage is what a server says of its work since it started.
type usage struct {
	cpu   float64 // seconds of processor time
	calls float64 // requests that it has read
	inAll float64 // seconds in commands
	ours  float64 // seconds in commands of the kinds that the probe sends
}

// ourKinds are the commands that the probe sends, and that few others do.
var ourKinds = []string{"cmdstat_evalsha_ro", "cmdstat_scan", "cmdstat_ping", "cmdstat_psubscribe"}

// begin notes what the servers have used so far. One that does not tell has no figure.
func (c *costs) begin(ctx context.Context, p *Keyspace) {
	if c.first == nil {
		c.first, c.began = map[string]usage{}, p.o.Clock()
	}
	for _, n := range p.nodes {
		if u, ok := n.usage(ctx); ok {
			if before, known := c.first[n.c.Options().Addr]; !known || before.calls > u.calls { // it has begun anew
				c.first[n.c.Options().Addr] = u
			}
		}
	}
}

// Observer is what watching has cost so far.
func (p *Keyspace) Observer(ctx context.Context) *history.Observer {
	c := &p.costs
	o := &history.Observer{Way: history.ByEvents, Commands: c.commands, Events: c.messages, Window: p.o.Clock() - c.began}
	for _, n := range p.nodes {
		o.Commands += n.commands
		if n.events == nil {
			o.Way, o.Why = history.ByPolling, witness.Cut(n.why)
		} else {
			o.Events += n.events.count()
		}
		now, ok := n.usage(ctx)
		first, known := c.first[n.c.Options().Addr]
		if !ok || !known || now.calls < first.calls {
			continue
		}
		// What a server does beside commands, reading and answering them above all, is shared out by how many were asked.
		cpu, calls := now.cpu-first.cpu, max(1, now.calls-first.calls)
		beside := max(0, cpu-(now.inAll-first.inAll))
		asked := float64(n.commands)
		if n.events != nil {
			asked += float64(n.events.count())
		}
		share := now.ours - first.ours + beside*min(1, asked/calls)
		o.Server += int64(cpu * 1e9)
		o.Ours += int64(min(cpu, share) * 1e9)
	}
	return o
}

func (n *node) usage(ctx context.Context) (u usage, ok bool) {
	info, err := n.c.InfoMap(ctx, "all").Result()
	if err != nil {
		return u, false
	}
	number := func(section, name string) float64 {
		f, _ := strconv.ParseFloat(info[section][name], 64)
		return f
	}
	u.cpu = number("CPU", "used_cpu_sys") + number("CPU", "used_cpu_user")
	u.calls = number("Stats", "total_reads_processed")
	for kind, said := range info["Commandstats"] {
		for part := range strings.SplitSeq(said, ",") {
			if text, is := strings.CutPrefix(part, "usec="); is {
				usec, _ := strconv.ParseFloat(text, 64)
				u.inAll += usec / 1e6
				if slices.Contains(ourKinds, kind) {
					u.ours += usec / 1e6
				}
			}
		}
	}
	return u, u.cpu > 0 && len(info["Commandstats"]) > 0
}
