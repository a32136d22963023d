// Package otlp sends a run as one trace to a collector of OpenTelemetry, by OTLP over HTTP, with the official SDK (below, in sdk),
// which the plain build does not have.
//
// Its one invariant: a trace is sent once, when the run is over and judged, and within a bounded time; what becomes of it changes nothing.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/reports"
)

// Within bounds the sending of a trace: nobody waits for a collector that hangs.
const Within = 10 * time.Second

// ErrBuild says that this build has no SDK.
var ErrBuild = errors.New("this build has no OpenTelemetry: use the release or the image, or build it with -tags full (make build does)")

// Wanted reports whether somebody wants a trace: by an address, or by the standard variables.
func Wanted(endpoint string) bool {
	if endpoint != "" {
		return true
	}
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Sender sends the span and all below it as one trace to an address, or where the standard variables say. began is when the run did; version is
// lockdrill's own. The answer is the id of the trace.
type Sender func(ctx context.Context, to, version string, began time.Time, root reports.Span) (id string, err error)

// sender is nil in a build that has no SDK.
var sender Sender

// Register says who sends traces, in a build that has the SDK.
func Register(s Sender) struct{} {
	sender = s
	return struct{}{}
}

// Check refuses an address before anything runs.
func Check(endpoint string) error {
	if sender == nil {
		return ErrBuild
	}
	_, err := address(endpoint)
	return err
}

// Send sends a trace to a collector; an empty endpoint is that of the standard variables.
func Send(ctx context.Context, endpoint, version string, began time.Time, root reports.Span) (id string, err error) {
	if sender == nil {
		return "", ErrBuild
	}
	if err := spoken(); err != nil {
		return "", err
	}
	if endpoint != "" {
		if endpoint, err = address(endpoint); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	return sender(ctx, endpoint, version, began, root)
}

// address is where traces go below a collector's address, as OTEL_EXPORTER_OTLP_ENDPOINT has it; an address with that path already stays.
func address(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", errors.New("want the URL of a collector, such as http://collector:4318; a token goes into OTEL_EXPORTER_OTLP_HEADERS")
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1/traces")
	}
	return u.String(), nil
}

// spoken refuses a protocol that is not spoken here.
func spoken() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" {
			if p != "http/protobuf" {
				return fmt.Errorf("%s=%s: traces go by http/protobuf only; a collector has it at port 4318", name, p)
			}
			return nil
		}
	}
	return nil
}
