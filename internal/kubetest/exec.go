package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// execProtocol tells the exit status in a Status object on a stream of its own.
const execProtocol = "v4.channel.k8s.io"

// serveExec runs NodeOptions.Exec in the life that the pod has. The command dies with that life, as one in a container does.
func (n *node) serveExec(w http.ResponseWriter, r *http.Request) {
	l := n.life(w, r, false)
	if l == nil {
		return
	}
	if l.isOver() {
		http.Error(w, "container not running", http.StatusInternalServerError)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{execProtocol}); err != nil {
		return // it has been answered
	}
	opened := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	streams := execStreams(r, opened, conn.CloseChan())
	if streams == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-l.over:
		case <-conn.CloseChan():
		case <-ctx.Done():
		}
		cancel()
	}()
	exit := n.exec(ctx, l, r.URL.Query()[corev1.ExecCommandParam], streams)
	if l.isOver() {
		exit = exitKill
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(execStatus(exit)) // nobody is left to be told of an error
	cancel()
	<-watching
}

// execStreams are the streams that were asked for, by their types, once all are open, and empty ones for the others; nil = the client has
// left or is late.
func execStreams(r *http.Request, opened <-chan httpstream.Stream, gone <-chan bool) map[string]io.ReadWriter {
	want := 1 // that of the status
	for _, asked := range []string{corev1.ExecStdinParam, corev1.ExecStdoutParam, corev1.ExecStderrParam} {
		if r.URL.Query().Get(asked) == "1" {
			want++
		}
	}
	streams := map[string]io.ReadWriter{}
	late := time.After(callWithin)
	for len(streams) < want {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-gone:
			return nil
		case <-late:
			return nil
		}
	}
	for _, name := range []string{corev1.StreamTypeStdin, corev1.StreamTypeStdout, corev1.StreamTypeStderr} {
		if streams[name] == nil {
			streams[name] = &bytes.Buffer{} // nothing to read, and nobody reads it
		}
	}
	return streams
}

func (n *node) exec(ctx context.Context, l *Life, command []string, streams map[string]io.ReadWriter) int {
	if n.Exec == nil {
		_, _ = io.WriteString(streams[corev1.StreamTypeStderr], "no such command in this container\n")
		return 127
	}
	return n.Exec(ctx, l, command, streams[corev1.StreamTypeStdin], streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr])
}

func execStatus(exit int) metav1.Status {
	if exit == 0 {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: "command terminated with non-zero exit code",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(exit)}}},
	}
}
