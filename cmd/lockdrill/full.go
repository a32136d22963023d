//go:build full

package main

import (
	"github.com/lockdrill/lockdrill/internal/otlp/sdk"
	"github.com/lockdrill/lockdrill/lockcore/worker/embedded/heavy"
	"github.com/lockdrill/lockdrill/probes/effects/rows"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/etcd"
	"github.com/lockdrill/lockdrill/stores/lease"
	"github.com/lockdrill/lockdrill/stores/postgres"
)

// What has drivers that weigh much is in a build with the tag full: kinds of stores, for drills and for their replicas, SQL databases, and OpenTelemetry.
var (
	_ = stores.Register(etcd.Kind, lease.Kind, postgres.Kind)
	_ = heavy.Register()
	_ = rows.Register()
	_ = sdk.Register()
)
