package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

func TestRunRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"v":1,"cmd":"offer"}`, "first command"},
		{`{"v":1,"cmd":"configure"}`, "first command"},
		{`{"v":2,"cmd":"configure","configure":{}}`, "version 2"},
		{`configure`, "read command"},
		{`{"v":1,"cmd":"stop","new":1}`, ""},
		{``, ""},
	} {
		err := Run(t.Context(), strings.NewReader(tt.in+"\n"), io.Discard, Options{})
		if tt.in == "" {
			err = Run(t.Context(), strings.NewReader(""), io.Discard, Options{})
		}
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("Run of %q = %v, want %q", tt.in, err, tt.want)
		}
	}
}

func TestRunRefusesCommandsThatMakeNoSense(t *testing.T) {
	c := startRedis(t)
	for _, tt := range []struct {
		c    protocol.Command
		want string
	}{
		{protocol.Command{Cmd: "dance"}, "dance"},
		{protocol.Command{Cmd: protocol.CmdOffer}, "lacks its body"},
		{protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "none", Job: "a"}}, `lock "none" is not configured`},
	} {
		r := launch(t, c, "r1.1", jobLock())
		r.send(tt.c)
		if err := r.end(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Run after %+v = %v, want %q", tt.c, err, tt.want)
		}
	}
}

func TestRunWithoutStoresEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // is no store, and shows that one is looked for
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	go func() {
		if conn, err := mute.Accept(); err == nil {
			cancel()
			_ = conn.Close()
		}
	}()
	in, feed := io.Pipe()
	defer feed.Close()
	go func() {
		_, _ = fmt.Fprintf(feed, `{"v":1,"cmd":"configure","configure":{"incarnation":"r1.1","store":{"addr":"%s"},"ledger":{"addr":"%[1]s"}}}`+"\n", mute.Addr())
	}()
	if err := Run(ctx, in, io.Discard, Options{}); err == nil || !strings.Contains(err.Error(), "connect to the store of the locks") {
		t.Errorf("Run = %v, want that it cannot connect", err)
	}
}

// A worker that cannot be heard stops: it would be a holder that nobody accounts for.
func TestRunEndsWhenItCannotBeHeard(t *testing.T) {
	c := startRedis(t)
	in, feed := io.Pipe()
	defer feed.Close()
	out, deaf := io.Pipe()
	_ = out.CloseWithError(errors.New("nobody listens"))
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), in, deaf, Options{}) }()
	r := &rig{t: t, in: feed, done: done}
	addr := c.Options().Addr
	r.send(protocol.Command{Cmd: protocol.CmdConfigure, Configure: &protocol.Configure{
		Incarnation: "r1.1", Store: protocol.Endpoint{Addr: addr}, Ledger: protocol.Endpoint{Addr: addr},
		Locks: []protocol.Lock{loopLock(lockcore.LoopRenewed)},
	}})
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("Run = %v, want the error of the writer", err)
	}
	if v, _ := c.Exists(t.Context(), "loop:leader").Result(); v != 0 {
		t.Error("the key is still held")
	}
}
