//go:build full

package main

import (
	"github.com/lockdrill/lockdrill/lockcore/worker/embedded/heavy"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/etcd"
	"github.com/lockdrill/lockdrill/stores/lease"
	"github.com/lockdrill/lockdrill/stores/postgres"
)

// The kinds of stores whose drivers weigh much are in a build with the tag full, of drills as of their replicas.
var (
	_ = stores.Register(etcd.Kind, lease.Kind, postgres.Kind)
	_ = heavy.Register()
)
