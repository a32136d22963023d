package drill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// openProxies puts a Toxiproxy on the way of each replica to the locks' store, if a fault needs one. Probes and ledger never go by it.
func (d *Drill) openProxies(ctx context.Context) error {
	if !slices.ContainsFunc(d.e.Faults, func(f experiments.Fault) bool { return f.Net() }) {
		return nil
	}
	proxies, err := testbed.OpenProxies(ctx, testbed.ProxyOptions{
		Mode: d.e.Proxy.Mode, URL: d.e.Proxy.URL, Run: d.run, Replicas: d.replicas(),
		Upstream: func(replica string) string { return d.beforeProxy(replica).Addr },
		Dial:     d.dialWay, Journal: d.journal,
	})
	if foreign := new(testbed.ForeignError); errors.As(err, &foreign) {
		return &Error{Refused, err}
	}
	if err != nil {
		return err
	}
	d.proxies = proxies
	d.stores.Notice += fmt.Sprintf("; replicas reach the locks through %s Toxiproxy", map[experiments.ProxyMode]string{
		experiments.ProxyEmbedded: "an embedded", experiments.ProxyExternal: "an external",
	}[proxies.Mode])
	return nil
}

// replicas are the names of all replicas.
func (d *Drill) replicas() []string {
	names := make([]string, d.e.System.Replicas)
	for i := range names {
		names[i] = fmt.Sprintf("r%d", i+1)
	}
	return names
}

// store is where a replica finds the locks: through its Toxiproxy, if there is one, and through what lies behind that. The
// certificate still names the store.
func (d *Drill) store(replica string) protocol.Endpoint {
	e := d.beforeProxy(replica)
	if d.pods != nil {
		e = fromPods(e, d.e.Kubernetes.Redis, deploy.RedisCA)
	}
	if d.proxies == nil {
		return e
	}
	if host, _, err := net.SplitHostPort(e.Addr); err == nil && e.TLS && e.ServerName == "" {
		e.ServerName = host
	}
	e.Addr = d.proxies.Addr(replica)
	return e
}

// dialWay connects through a way as a replica does, and names the password, if there is one.
func (d *Drill) dialWay(ctx context.Context, addr string) (net.Conn, error) {
	options, err := d.stores.Locks.Options()
	if err != nil {
		return nil, err
	}
	if d.tap != nil {
		options.TLSConfig = nil // the proxy behind it speaks plain text
	}
	conn, err := DialPlain(ctx, addr, options.TLSConfig)
	if err != nil {
		return nil, err
	}
	if err := introduce(ctx, conn, options.Username, options.Password); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// introduce sends AUTH. What goes wrong there is told without the command.
func introduce(ctx context.Context, conn net.Conn, username, password string) error {
	if password == "" {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	words := []string{"AUTH", password}
	if username != "" {
		words = []string{"AUTH", username, password}
	}
	command := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := conn.Write([]byte(command)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+") {
		return errors.New("the store refused the password")
	}
	return err
}
