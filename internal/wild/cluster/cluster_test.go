// The API server for the cells of locks that are Lease objects is a real one. It is a test, since kubetest is for tests. internal/wild
// starts it for each run, and its standard input ends it.

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/proxies/apiproxy"
)

const namespace = "wild"

// TestServe prints which kubeconfig leads to the API server, and where it takes faults: POST /FAULT/STEP of a hook, with the fault's id and
// the victim's name. It stands until its standard input ends.
func TestServe(t *testing.T) {
	e := kubetest.Start(t, kubetest.Options{NoNode: true})
	e.Namespace(namespace, map[string]string{"lockdrill.dev/environment": "staging"})
	s := &site{Env: e, t: t}
	kubeconfig := s.ways()
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(control, Hooks(s.fault)) }()
	text, err := json.Marshal(map[string]string{"Kubeconfig": kubeconfig, "Control": "http://" + control.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(text))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type site struct {
	*kubetest.Env
	t       *testing.T
	proxies map[string]*apiproxy.Proxy      // by replica
	answers func(ctx context.Context) error // of the API server, after a restart
}

// ways starts a proxy of lockdrill for each replica. It is a kubeconfig with the runner's context, which is the current one, and with one of
// each replica's name, by which somebody who may elect goes through its proxy.
func (s *site) ways() string {
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
	all, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	elector, err := clientcmd.LoadFromFile(s.KubeconfigForElector(namespace, ""))
	if err != nil {
		t.Fatal(err)
	}
	as := elector.Contexts[elector.CurrentContext]
	all.AuthInfos["elector"] = elector.AuthInfos[as.AuthInfo]
	s.proxies = map[string]*apiproxy.Proxy{}
	for _, replica := range []string{"r1", "r2"} {
		proxy := apiproxy.New(apiproxy.Options{Upstream: strings.TrimPrefix(s.Config.Host, "https://"), Written: kube.Written,
			Server: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, Client: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}})
		t.Cleanup(func() { _ = proxy.Close() })
		addr, err := proxy.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.proxies[replica] = proxy
		server := elector.Clusters[as.Cluster].DeepCopy()
		server.Server = "https://" + addr
		all.Clusters[replica], all.Contexts[replica] = server, &api.Context{Cluster: replica, AuthInfo: "elector", Namespace: namespace}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *site) fault(ctx context.Context, what, step, id, victim string) error {
	if w, ok := Ways[what]; ok {
		w.ID = id
		var all []error
		for replica, proxy := range s.proxies {
			if w.All || replica == victim {
				all = append(all, Strike(ctx, proxy, w.Fault, step))
			}
		}
		return errors.Join(all...)
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
