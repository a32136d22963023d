package redis

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	return redistest.Dial(t, redistest.Start(t))
}

const ms = testkit.MS

var look, at, onStores = testkit.Look, testkit.At, redistest.OnStores
