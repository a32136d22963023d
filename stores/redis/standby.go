package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/stores"
)

// standby is a server that follows a store's, and takes its place when that is killed. It moves to the dead server's port, so that
// no client needs to be told: neither replicas, nor proxies, nor probes.
type standby struct {
	server *redisServer
	client *redis.Client
}

const (
	movePort   = 7               // CONFIG SET port needs this version of Redis
	moveLimit  = 2 * time.Second // until the dead server's port is free
	moveEvery  = 2 * time.Millisecond
	inStepFor  = 5 * time.Second // until a standby has all data
	linkStands = "up"
)

// openStandby starts a server that follows the one at addr, and waits until it has all its data.
func openStandby(ctx context.Context, how *stores.Own, addr string, keep bool) (*standby, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	server, client, info, err := spawnRedis(ctx, how, "standby", keep, "--replicaof", host, port)
	if err != nil {
		return nil, fmt.Errorf("start standby: %w", err)
	}
	s := &standby{server: server, client: client}
	if major, _, _ := strings.Cut(info["redis_version"], "."); number(major) < movePort {
		err = fmt.Errorf("a fail-over %w: the redis-server on the PATH is %s, and 7.0 or later is needed", stores.ErrSettings, versionIn(info))
	} else {
		err = s.inStep(ctx)
	}
	if err != nil {
		return nil, stores.Abandon(ctx, err, s.end)
	}
	return s, nil
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // 0 = none
	return n
}

// inStep waits until the standby's link to the server it follows stands.
func (s *standby) inStep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, inStepFor)
	defer cancel()
	var last error
	for range poll.Every(ctx, moveEvery) {
		info, err := infoOf(ctx, s.client, "replication")
		if err == nil && info["master_link_status"] == linkStands {
			return nil
		}
		last = err
	}
	return fmt.Errorf("wait until the standby has all data: %w", errors.Join(ctx.Err(), last))
}

// cut ends the following; a standby that did not follow to the last was none.
func (s *standby) cut(ctx context.Context) error {
	if err := s.inStep(ctx); err != nil {
		return err
	}
	if err := s.client.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		return fmt.Errorf("cut standby off: %w", err)
	}
	return nil
}

// takeAddress moves the server to addr, whose server is dead.
func (s *standby) takeAddress(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if err := s.client.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		return fmt.Errorf("make standby the primary: %w", err)
	}
	for range poll.Every(ctx, moveEvery) {
		err = s.client.ConfigSet(ctx, "port", port).Err()
		if err == nil {
			s.server.Addr, s.server.args = addr, nil
			return nil
		}
	}
	return fmt.Errorf("move standby to port %s: %w", port, err)
}

func (s *standby) end(ctx context.Context) error {
	err := s.client.Close()
	if errors.Is(err, redis.ErrClosed) {
		err = nil
	}
	return errors.Join(err, s.server.End(ctx))
}
