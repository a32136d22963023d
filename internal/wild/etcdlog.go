package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdLog is etcd's own log of a run: who had the lock after each change, as the revision that created the oldest key, 0 for nobody.
type etcdLog struct {
	owners []int64
	err    error
}

// followEtcd reads the log of the etcd that a run starts, from its first revision until ctx ends. It finds the servers by the run's
// journal, and asks them by a client of its own.
func followEtcd(ctx context.Context, run string) etcdLog {
	var addrs []string
	for len(addrs) == 0 {
		select {
		case <-ctx.Done():
			return etcdLog{err: fmt.Errorf("no etcd was seen")}
		case <-time.After(20 * time.Millisecond):
			addrs = etcdServers(run)
		}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		return etcdLog{err: err}
	}
	defer func() { _ = c.Close() }()
	var log etcdLog
	keys, next := map[string]int64{}, int64(1)
	for ctx.Err() == nil {
		for news := range c.Watch(ctx, "lockdrill:", clientv3.WithPrefix(), clientv3.WithRev(next)) {
			if news.CompactRevision > 0 {
				return etcdLog{err: fmt.Errorf("revisions up to %d were compacted", news.CompactRevision)}
			}
			for _, e := range news.Events {
				next = e.Kv.ModRevision + 1
				if !strings.Contains(string(e.Kv.Key), "mutex:wild") {
					continue
				}
				if keys[string(e.Kv.Key)] = e.Kv.CreateRevision; e.Type == clientv3.EventTypeDelete {
					delete(keys, string(e.Kv.Key))
				}
				owner := int64(0)
				for _, created := range keys {
					if owner == 0 || created < owner {
						owner = created
					}
				}
				log.owners = append(log.owners, owner)
			}
		}
	}
	return log
}

// etcdServers are the addresses of the servers whose processes the journal names.
func etcdServers(run string) (addrs []string) {
	text, _ := os.ReadFile(filepath.Join(run, "undo.jsonl")) // not there yet
	for line := range strings.Lines(string(text)) {
		var l struct {
			Record struct {
				Process struct {
					PID    int
					Folder string
				}
			}
		}
		if json.Unmarshal([]byte(line), &l) != nil || !strings.Contains(l.Record.Process.Folder, "-etcd-") {
			continue
		}
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.Record.Process.PID))
		words := strings.Split(string(args), "\x00")
		if i := slices.Index(words, "--listen-client-urls"); i > 0 {
			addrs = append(addrs, words[i+1])
		}
	}
	return addrs
}

// agrees says that the looks of a run's history tell the same owners in the same order, none less, none more.
func (l etcdLog) agrees(history string) error {
	if l.err != nil {
		return l.err
	}
	in, err := os.Open(history)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	var told []int64
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e struct {
			Kind, Source string
			Fence        int64
		}
		if json.Unmarshal(line, &e) == nil && e.Kind == "look" && e.Source == "probe:lock_keys" {
			told = append(told, e.Fence)
		}
	}
	is, was := slices.Compact(told), slices.Compact(l.owners)
	if len(is) > 0 && is[0] == 0 { // before the first grant
		is = is[1:]
	}
	if !slices.Equal(is, was) {
		return fmt.Errorf("the probe tells the owners %v, etcd's own log %v", is, was)
	}
	return nil
}
