package bed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockdrill/lockdrill/history"
)

// closeLimit bounds the closing of a store that failed to open.
const closeLimit = 5 * time.Second

// Store is one Redis of the drill.
type Store struct {
	Info   history.StoreInfo
	Addr   string // host:port, loopback
	Prefix string // "lockdrill:<run>:", before every key of the run
	PID    int    // of a spawned server; 0 = none of its own

	client *redis.Client
	end    func(context.Context) error // ends the server and verifies it
	runID  string                      // of an embedded server, which does not tell one itself
}

// newClient is the bed's own connection to a store: no retries, and deadlines that hold.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true,
		MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: time.Second, PoolSize: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

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
	n, err := s.client.Exists(ctx, s.marker()).Result()
	if err != nil {
		return "", false, fmt.Errorf("look for marker: %w", err)
	}
	if s.runID != "" {
		return s.runID, n == 1, nil
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
	return errors.Join(err, s.end(ctx))
}

func (s *Store) marker() string { return s.Prefix + "marker" }

// serverInfo is the server section of INFO.
func serverInfo(ctx context.Context, c *redis.Client) (map[string]string, error) {
	text, err := c.Info(ctx, "server").Result()
	if err != nil {
		return nil, fmt.Errorf("ask for info: %w", err)
	}
	info := map[string]string{}
	for sc := bufio.NewScanner(strings.NewReader(text)); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), ":"); ok {
			info[k] = v
		}
	}
	return info, nil
}
