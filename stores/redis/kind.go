package redis

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/proxies/tap"
	"github.com/lockdrill/lockdrill/stores"
)

// Kind is the kind redis. OpenStores opens its stores.
var Kind = stores.Kind{Name: experiments.StoreRedis, Outside: fromOutside, Leave: leave}

// Every build that can drill has it: ledgers are of this kind.
var _ = stores.Register(Kind)

// Watch implements stores.Store.
func (s *Store) Watch(func() int64) (stores.Watch, error) {
	options, err := s.Options()
	if err != nil {
		return nil, err
	}
	return NewLockKeys(options, s.Prefix), nil
}

// Question implements stores.Asked: as a replica asks.
func (s *Store) Question(first protocol.Endpoint) (endpoint.Question, error) {
	options, err := s.Options()
	if err != nil {
		return endpoint.Question{}, err
	}
	a := endpoint.Access{User: options.Username, Password: options.Password, TLS: options.TLSConfig}
	if !first.TLS { // the proxy behind it speaks plain text
		a.TLS = nil
	}
	return endpoint.AskRedis(a), nil
}

// Tap implements stores.Tapped: the proxy speaks TLS to the store, and reads plain text.
func (s *Store) Tap(o tap.Options, replicas []string) (*tap.Tap, stores.Hop, error) {
	options, err := s.Options()
	if err != nil {
		return nil, nil, err
	}
	o.Dial = func(ctx context.Context) (net.Conn, error) {
		return endpoint.DialPlain(ctx, options.Addr, options.TLSConfig)
	}
	o.Rules = tap.Rules{Keys: []string{tap.Quote(s.Prefix) + "*"}, Scripts: CoreScripts()}
	t := tap.New(o)
	way, err := stores.OneServer(replicas, t.Listen)
	return t, way, err
}

// CoreScripts are the lock core's own, by their hashes.
func CoreScripts() (rules []tap.ScriptRule) {
	for hash, op := range redisstore.Operations() {
		rules = append(rules, tap.ScriptRule{SHA1: hash, Op: op})
	}
	return rules
}

// fromOutside is the store of a record over a connection of its own.
func fromOutside(w undo.Store) (stores.Outside, error) {
	c, err := Dial(w)
	return outside{c}, err
}

// outside is a Redis from outside.
type outside struct{ *redis.Client }

// Redis is the connection itself, for what can be done to a Redis only.
func (c outside) Redis() *redis.Client { return c.Client }

func (c outside) Who(ctx context.Context) (string, error) { return c.Told(ctx, "server", "run_id") }

func (c outside) Put(ctx context.Context, key string, ttl time.Duration) error {
	return c.Set(ctx, key, "1", ttl).Err()
}

func (c outside) There(ctx context.Context, key string) (bool, error) {
	n, err := c.Exists(ctx, key).Result()
	return n == 1, err
}

func (c outside) Drop(ctx context.Context, keys ...string) error {
	return c.Del(ctx, keys...).Err()
}

// Told is a field of a section of INFO; "" = the server answers and does not tell it, as the embedded one.
func (c outside) Told(ctx context.Context, section, field string) (string, error) {
	if err := c.Ping(ctx).Err(); err != nil {
		return "", err
	}
	text, err := c.Info(ctx, section).Result()
	if err != nil && strings.Contains(err.Error(), "not supported") {
		return "", nil
	}
	return infoIn(text)[field], err
}
