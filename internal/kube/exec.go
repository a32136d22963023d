package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// execOutput bounds what is kept of the output of a command.
const execOutput = 4096

// ErrNotRun is wrapped by errors that say that a command surely was not run.
var ErrNotRun = errors.New("it was not run")

// refusedExec is how client-go's error begins where the last way of asking was refused; it has no type.
const refusedExec = "unable to upgrade connection"

// Exec runs a command in a container until it ends; container "" = the pod's first. exit is its exit status, output what it said on
// both streams, cut to 4096 bytes. An error says that the command could not be run, or that its end was not seen: a command that ends
// the very container that it runs in may end so. It wraps ErrNotRun where the API server or the node has refused to run it.
func (c *Cluster) Exec(ctx context.Context, pod, container string, command []string) (exit int, output string, err error) {
	if c.core == nil {
		return 0, "", fmt.Errorf("run a command in a pod: %w", errNoConnection)
	}
	q := c.sub(c.core.Post(), pod, "exec", container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		q.Param("command", word)
	}
	url := q.URL()
	modern, err := remotecommand.NewWebSocketExecutor(c.rest, "GET", url.String())
	if err != nil {
		return 0, "", fmt.Errorf("run a command in pod %s: %w", pod, err)
	}
	old, err := remotecommand.NewSPDYExecutor(c.rest, "POST", url) // API servers and proxies that know no WebSockets
	if err != nil {
		return 0, "", fmt.Errorf("run a command in pod %s: %w", pod, err)
	}
	either, err := remotecommand.NewFallbackExecutor(modern, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return 0, "", fmt.Errorf("run a command in pod %s: %w", pod, err)
	}
	var said head
	err = either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &said, Stderr: &said})
	var ended exec.CodeExitError
	switch {
	case err == nil:
		return 0, said.String(), nil
	case errors.As(err, &ended):
		return ended.Code, said.String(), nil
	case httpstream.IsUpgradeFailure(err) || strings.HasPrefix(err.Error(), refusedExec):
		return 0, "", fmt.Errorf("run a command in pod %s: %w: %w", pod, ErrNotRun, err)
	}
	return 0, said.String(), fmt.Errorf("run a command in pod %s: %w", pod, err)
}

// head keeps the first part of what is written to it. Both streams of a command write to it, each from a goroutine of its own.
type head struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Write(p[:min(len(p), execOutput-h.buf.Len())])
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}
