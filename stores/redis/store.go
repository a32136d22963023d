package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Store is one Redis of the drill.
type Store struct {
	Info   history.StoreInfo
	Addr   string // host:port; loopback, where the run started it. It stays over restarts and fail-overs
	Prefix string // "lockdrill:<run>:", before every key of the run
	PID    int    // of a spawned server as it was opened; 0 = none of its own

	client redis.UniversalClient
	where  undo.Store                    // of an external Redis: how it is dialled
	self   func() (id string, err error) // what the server does not tell itself: this life's id, or that it is no longer ours; nil = nothing

	mu      sync.Mutex // guards what follows: what is done to the server is done one thing after the other
	host    host
	standby *standby // of a drill that fails over
	moved   bool     // the standby is the server now, and has none itself
}

// host is what a store's server runs in.
type host interface {
	Kill(ctx context.Context) error // as kill -9 does; one that does not run is killed already
	start(ctx context.Context, client redis.UniversalClient, keep bool) error
	End(ctx context.Context) error // for good, and verifies it
	Process() *undo.Process        // nil = none of its own
}

const (
	answersWithin = time.Second     // what is asked of a store of a drill
	looksWithin   = 2 * time.Second // and by a look
)

// About is what is recorded of it.
func (s *Store) About() history.StoreInfo { return s.Info }

// Mark sets the marker key, which has no expiry: where it vanishes, the store has lost data.
func (s *Store) Mark(ctx context.Context) error {
	if err := s.client.Set(ctx, s.marker(), "1", 0).Err(); err != nil {
		return fmt.Errorf("set marker: %w", err)
	}
	return nil
}

// Life asks the store who it is: the server's run id (a restart changes it) and whether the marker is still there (a flush
// removes it and keeps the run id). An error says that the store did not answer.
func (s *Store) Life(ctx context.Context) (runID string, marker bool, err error) {
	if one, single := s.client.(*redis.Client); single && s.self == nil { // both at once: it is asked ten times a second
		var there *redis.IntCmd
		var info *redis.StringCmd
		_, err := one.Pipelined(ctx, func(both redis.Pipeliner) error {
			there, info = both.Exists(ctx, s.marker()), both.Info(ctx, "server")
			return nil
		})
		if err != nil {
			return "", false, fmt.Errorf("look for marker: %w", err)
		}
		return infoIn(info.Val())["run_id"], there.Val() == 1, nil
	}
	n, err := s.client.Exists(ctx, s.marker()).Result()
	if err != nil {
		return "", false, fmt.Errorf("look for marker: %w", err)
	}
	if s.self != nil {
		if id, err := s.self(); id != "" || err != nil {
			return id, n == 1, err
		}
	}
	info, err := serverInfo(ctx, s.client)
	if err != nil {
		return "", false, err
	}
	return info["run_id"], n == 1, nil
}

// Close ends the server and verifies that its process and its folder are gone. It may be called again.
func (s *Store) Close(ctx context.Context) error {
	err := s.client.Close()
	if errors.Is(err, redis.ErrClosed) {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standby != nil {
		err = errors.Join(err, s.standby.end(ctx))
	}
	return errors.Join(err, s.host.End(ctx))
}

func (s *Store) marker() string { return s.Prefix + "marker" }

// serverInfo is the server section of INFO; of a cluster that of one of its masters, with a run id that stands for all.
func serverInfo(ctx context.Context, c redis.UniversalClient) (info map[string]string, err error) {
	var ids []string
	err = onServers(ctx, c, func(ctx context.Context, server *redis.Client) (err error) {
		info, err = infoOf(ctx, server, "server")
		ids = append(ids, info["run_id"])
		return err
	})
	if err != nil { // of one server of several: what the others said is no answer
		return nil, err
	}
	if len(ids) > 1 {
		slices.Sort(ids)
		info["run_id"] = lockcore.Fingerprint(strings.Join(ids, " "))
	}
	return info, nil
}

// versionIn is what the server section says: of a Valkey its name and version, since it tells with redis_version which Redis it works like.
func versionIn(info map[string]string) string {
	if own := info["valkey_version"]; own != "" {
		return "Valkey " + own
	}
	return info["redis_version"]
}

func infoOf(ctx context.Context, c redis.UniversalClient, section string) (map[string]string, error) {
	text, err := c.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("ask for info: %w", err)
	}
	return infoIn(text), nil
}

func infoIn(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			info[k] = v
		}
	}
	return info
}
