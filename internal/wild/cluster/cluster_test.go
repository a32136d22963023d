// The API server for the cells of locks that are Lease objects is a real one. It is a test, since kubetest is for tests. internal/wild
// starts it for each run, and its standard input ends it.

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/apiproxy"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

const namespace = "wild"

// TestServe prints where the API server is, for the runner and, through lockdrill's proxy, for the electors, and where it takes faults: POST
// /FAULT/STEP of a hook, with the fault's id and the victim's name. It stands until its standard input ends.
func TestServe(t *testing.T) {
	e := kubetest.Start(t, kubetest.Options{NoNode: true})
	e.Namespace(namespace, map[string]string{"lockdrill.dev/environment": "staging"})
	s := &site{Env: e, t: t}
	electors := s.electors()
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(control, Hooks(s.fault)) }()
	text, err := json.Marshal(map[string]string{"Kubeconfig": e.Kubeconfig, "Electors": electors, "Control": "http://" + control.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(text))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type site struct {
	*kubetest.Env
	t       *testing.T
	proxy   *apiproxy.Proxy
	answers func(ctx context.Context) error // of the API server, after a restart
}

// electors starts the proxy, and is a kubeconfig of one who may elect, through it.
func (s *site) electors() string {
	t := s.t
	cert, key, ca := s.ServingFiles()
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	s.proxy = apiproxy.New(apiproxy.Options{Upstream: strings.TrimPrefix(s.Config.Host, "https://"), Written: kube.Written,
		Server: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, Client: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}})
	t.Cleanup(func() { _ = s.proxy.Close() })
	addr, err := s.proxy.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s.KubeconfigForElector(namespace, "https://"+addr)
}

func (s *site) fault(ctx context.Context, what, step, id, victim string) error {
	if w, ok := Ways[what]; ok {
		if w.ID = id; !w.All {
			w.From = []string{"127.0.1." + strings.TrimPrefix(victim, "r")}
		}
		return Strike(ctx, s.proxy, w.Fault, step)
	}
	switch what + " " + step {
	case "restart do":
		var err error
		s.answers, err = s.RestartEtcd()
		return err
	case "restart confirm":
		return s.answers(ctx)
	}
	return fmt.Errorf("no fault is called %s, or it has no %s", what, step)
}
