//go:build !full

package testbed

import (
	"context"
	"errors"

	"github.com/lockdrill/lockdrill/experiments/undo"
)

// endEtcdKeys needs the driver: recover by the build that ran the drill.
func endEtcdKeys(context.Context, undo.Record) error {
	return errors.New("remove keys of an etcd: this build has no driver of it: use the release or the image, or build it with -tags full (make build does)")
}
