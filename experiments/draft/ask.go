package draft

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Ask asks a person for what is missing. An empty answer takes what is offered; it ends early where the answers end.
func (d *Draft) Ask(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	ask := func(question, offer string) string {
		if offer != "" {
			offer = " [" + offer + "]"
		}
		fmt.Fprintf(out, "%s%s: ", question, offer)
		if !lines.Scan() {
			return ""
		}
		return strings.TrimSpace(lines.Text())
	}
	length := func(question, offer string) (time.Duration, bool) {
		for range 3 {
			text := ask(question, offer)
			if text == "" {
				return 0, false
			}
			if d, err := time.ParseDuration(text); err == nil && d >= 0 {
				return d, true
			}
			fmt.Fprintf(out, "%q is no duration: write it like 500ms, 30s or 2m\n", text)
		}
		return 0, false
	}
	if d.Name == "" {
		d.Name = NameOf(ask("What is the service called?", "my-service"))
		if d.Name == "lock" {
			d.Name = ""
		}
	}
	if d.Redis.URL == "" && d.Namespace == "" {
		if d.Redis.URL = ask("URL of the Redis with its locks, without a password", "redis://127.0.0.1:6379"); d.Redis.URL == "" {
			d.Redis.URL = "redis://127.0.0.1:6379"
		}
	}
	for len(d.Locks) == 0 || d.Locks[len(d.Locks)-1].Key != "" {
		question, offer := "Key of a leader's lock", ""
		if len(d.Locks) > 0 {
			question, offer = "Another key", "none"
		}
		key := ask(question, offer)
		if key == "" || key == offer {
			break
		}
		l := Lock{Key: key}
		l.TTL, _ = length("TTL of its lease", "1m")
		if every, ok := length("How often its holder renews it; 0s: never", "a third of the TTL"); ok {
			l.RenewEvery = every
		} else {
			l.RenewEvery = l.TTL / 3
		}
		d.Locks = append(d.Locks, l)
	}
	if d.Namespace == "" && !d.found() {
		d.Processes.Match = ask("A regular expression that the command lines of its replicas match", "")
	}
	if d.Replicas == 0 {
		d.Replicas, _ = strconv.Atoi(ask("How many replicas run", "3"))
	}
}

// found reports whether somebody said how the processes are found.
func (d *Draft) found() bool {
	p := &d.Processes
	return p.Match != "" || p.PIDFiles != "" || p.Unit != "" || p.Cgroup != "" || len(p.Command) > 0
}
