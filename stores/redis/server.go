package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/stores"
)

const readyLimit = 5 * time.Second // until a started server answers (usually 10 ms)

// redisServer is one redis-server of this run.
type redisServer struct {
	stores.Spawned
	keep bool     // what it is told is in its folder, so that it is there after a kill and a start
	args []string // further ones
}

// openSpawned starts a redis-server on a free loopback port, in a new folder.
func openSpawned(ctx context.Context, how *stores.Own, name, prefix string, keep bool) (*Store, error) {
	r, client, info, err := spawnRedis(ctx, how, name, keep)
	if err != nil {
		return nil, err
	}
	return &Store{
		Info: history.StoreInfo{Kind: "spawned", Version: versionIn(info), RunID: info["run_id"]},
		Addr: r.Addr, Prefix: prefix, PID: r.Self.PID, client: client, host: r,
	}, nil
}

// spawnRedis starts a server that answers; on an error nothing is left of it.
func spawnRedis(ctx context.Context, how *stores.Own, name string, keep bool, args ...string) (r *redisServer, client *redis.Client, info map[string]string, err error) {
	err = stores.Tries(ctx, func() (func(context.Context) error, error) {
		addr, err := stores.FreeAddr()
		if err != nil {
			return nil, err
		}
		r = &redisServer{Spawned: stores.Spawned{How: how, Name: name, Kind: "redis-server", Addr: addr}, keep: keep, args: args}
		if err := r.MakeFolder(); err != nil {
			return nil, err
		}
		client = endpoint.Client(&redis.Options{Addr: r.Addr}, answersWithin)
		if info, err = r.launch(ctx, client); err != nil {
			err = errors.Join(err, client.Close())
		}
		return r.End, err
	})
	return r, client, info, err
}

// launch starts the process, writes it down, and waits until it answers to client, which is one of its address.
func (r *redisServer) launch(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	_, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return nil, err
	}
	args := []string{"--port", port, "--bind", "127.0.0.1", "--protected-mode", "yes", "--save", "", "--dir", r.Dir,
		"--daemonize", "no", "--loglevel", "warning", "--repl-diskless-sync-delay", "0", "--appendonly"}
	if r.keep { // the system's cache outlives the process: no sync is needed
		args = append(args, "yes", "--appendfsync", "no")
	} else {
		args = append(args, "no")
	}
	if err := r.Run(exec.Command(r.How.Binary, append(args, r.args...)...)); err != nil {
		return nil, err
	}
	return r.awaitReady(ctx, client)
}

// awaitReady polls until the server answers, and makes sure that it is ours: another server may have taken the port.
func (r *redisServer) awaitReady(ctx context.Context, client redis.UniversalClient) (info map[string]string, err error) {
	return info, r.Await(ctx, readyLimit, 2*time.Millisecond, "redis-server answers", func(ctx context.Context) error {
		if err := stores.Accepts(ctx, r.Addr); err != nil {
			return err
		}
		if err := client.Ping(ctx).Err(); err != nil { // an error while it reads what it has kept
			return err
		}
		if info, err = serverInfo(ctx, client); err != nil {
			return err
		}
		if info["process_id"] != strconv.Itoa(r.Self.PID) {
			return fmt.Errorf("process %s answers there, and %d was started: is redis-server on the PATH a wrapper that does not exec?", info["process_id"], r.Self.PID)
		}
		return nil
	})
}

// start implements host: on the same port, in the same folder. One that runs goes on.
func (r *redisServer) start(ctx context.Context, client redis.UniversalClient, keep bool) error {
	if r.Runs() {
		return nil
	}
	if keep && !r.keep {
		return errors.New("start redis-server with its data: it has kept none")
	}
	if !keep {
		if err := r.Empty(); err != nil {
			return err
		}
	}
	_, err := r.launch(ctx, client)
	return err
}
