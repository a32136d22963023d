package apiproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

// rig is a proxy before a TLS server that answers with the method, and a client by an address of its own.
type rig struct {
	*Proxy
	url string
	api string
	srv *httptest.Server
}

func newRig(t *testing.T, ends bool) *rig {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Method, " ", r.Header.Get("Authorization"))
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	o := Options{Upstream: srv.Listener.Addr().String()}
	if ends {
		o.Server = &tls.Config{Certificates: srv.TLS.Certificates}
		o.Client = srv.Client().Transport.(*http.Transport).TLSClientConfig
		o.Written = func(path string, body []byte) string { return strings.TrimPrefix(path, "/") + string(body) }
	}
	p := New(o)
	t.Cleanup(func() { _ = p.Close() })
	at, err := p.Listen("127.0.0.1:0")
	testkit.Must(t, err)
	api := httptest.NewServer(p.API())
	t.Cleanup(api.Close)
	return &rig{p, "https://" + at, api.URL, srv}
}

// client connects from that address of loopback.
func (r *rig) client(t *testing.T, from string) *http.Client {
	t.Helper()
	tr := r.srv.Client().Transport.(*http.Transport).Clone()
	tr.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext
	tr.ForceAttemptHTTP2 = true
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

func (r *rig) ask(t *testing.T, c *http.Client, method string) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url, nil)
	testkit.Must(t, err)
	req.Header.Set("Authorization", "Bearer x")
	res, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

const oneself, another = "127.0.0.7", "127.0.0.8"

// TLS is passed through, or ended: either way the server hears what the client said, and the client's token.
func TestTheProxyPassesEverythingOn(t *testing.T) {
	for _, ends := range []bool{false, true} {
		r := newRig(t, ends)
		for _, method := range []string{"GET", "PUT"} {
			if status, body, err := r.ask(t, r.client(t, oneself), method); err != nil || status != 200 || body != method+" Bearer x" {
				t.Errorf("ends %v: %d %q %v", ends, status, body, err)
			}
		}
		s, err := Seen(t.Context(), r.api)
		if err != nil || s.Sources[oneself] == 0 || s.EndsTLS != ends {
			t.Errorf("seen %+v, %v", s, err)
		}
	}
}

// Whoever is away is reset, on the connection that stands and on new ones, and nobody else is; then all is as before.
func TestTheServerIsAwayForOneClient(t *testing.T) {
	r := newRig(t, false)
	one, two := r.client(t, oneself), r.client(t, another)
	for _, c := range []*http.Client{one, two} {
		if _, _, err := r.ask(t, c, "GET"); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, Arm(t.Context(), r.api, Fault{ID: "gone", Do: Away, For: time.Hour, From: []string{oneself}}))
	if _, _, err := r.ask(t, one, "GET"); err == nil {
		t.Error("it is answered")
	}
	if _, _, err := r.ask(t, two, "GET"); err != nil {
		t.Errorf("another is not: %v", err)
	}
	told := tap.NewClient(r.api)
	if f, err := told.Fault(t.Context(), "gone"); err != nil || f.Over || f.Hits == 0 {
		t.Errorf("%+v, %v", f, err)
	}
	for range 2 {
		testkit.Must(t, told.End(t.Context(), "gone"))
	}
	if _, _, err := r.ask(t, one, "GET"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A slow server hears late, by at least the delay; at the end of the fault what is still on its way is there at once.
func TestTheServerIsSlow(t *testing.T) {
	for _, ends := range []bool{false, true} {
		r := newRig(t, ends)
		c := r.client(t, oneself)
		if _, _, err := r.ask(t, c, "GET"); err != nil {
			t.Fatal(err)
		}
		const delay = 300 * time.Millisecond
		testkit.Must(t, r.Arm(Fault{ID: "slow", Do: Slow, Delay: delay, For: time.Hour}))
		began := time.Now()
		if _, _, err := r.ask(t, c, "GET"); err != nil || time.Since(began) < delay {
			t.Errorf("answered after %s, %v", time.Since(began), err)
		}
		r.End("slow", "")
		testkit.Must(t, r.Arm(Fault{ID: "very slow", Do: Slow, Delay: 10 * time.Minute, For: time.Hour}))
		answered := make(chan error, 1)
		go func() {
			_, _, err := r.ask(t, c, "GET")
			answered <- err
		}()
		hits := func() int64 { return r.Faults()[1].Hits }
		for hits() == 0 { // it is on its way
			select {
			case err := <-answered:
				t.Fatalf("answered: %v", err)
			default:
			}
		}
		r.End("very slow", "")
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

// Writes are refused and reads answered, of one client; only a proxy that ends TLS can do so.
func TestWritesAreRefusedAndReadsAnswered(t *testing.T) {
	r := newRig(t, true)
	testkit.Must(t, Arm(t.Context(), r.api, Fault{ID: "ro", Do: RefuseWrites, For: time.Hour, From: []string{oneself}}))
	for _, c := range []struct {
		from, method string
		want         int
	}{{oneself, "PUT", 503}, {oneself, "POST", 503}, {oneself, "PATCH", 503}, {oneself, "DELETE", 503}, {oneself, "GET", 200}, {another, "PUT", 200}} {
		if status, body, err := r.ask(t, r.client(t, c.from), c.method); err != nil || status != c.want || c.want == 503 && !strings.Contains(body, `"code":503`) {
			t.Errorf("%s from %s: %d %q %v", c.method, c.from, status, body, err)
		}
	}
	if f := r.Faults()[0]; f.Hits != 4 {
		t.Errorf("%d hits", f.Hits)
	}
	if err := newRig(t, false).Arm(Fault{ID: "ro", Do: RefuseWrites, For: time.Hour}); !errors.Is(err, ErrNoTLS) {
		t.Errorf("without certificates: %v", err)
	}
}

// One write of the kind that is meant is carried out and not answered, until the fault is over; every other one is, also one that the server
// refuses. Only a proxy that ends TLS can tell them.
func TestTheAnswerToOneWriteIsLost(t *testing.T) {
	const of, body, other = "renew", "renew", "acquire"
	r := newRig(t, true)
	done := make(chan string, 10) // the writes that the server carried out
	refuse := true
	r.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		if string(text) == body && refuse {
			refuse = false
			w.WriteHeader(http.StatusConflict)
			return
		}
		done <- string(text)
	})
	write := func(c *http.Client, body string) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url, strings.NewReader(body))
		testkit.Must(t, err)
		res, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	testkit.Must(t, Arm(t.Context(), r.api, Fault{ID: "lost", Do: LoseReply, Of: of, For: time.Hour, From: []string{oneself}}))
	one, two := r.client(t, oneself), r.client(t, another)
	if code, err := write(one, body); err != nil || code != http.StatusConflict || r.Faults()[0].Hits != 0 {
		t.Fatalf("%s, refused by the server: %d %v", of, code, err)
	}
	if code, err := write(one, other); err != nil || code != 200 {
		t.Errorf("%s instead of %s: %d %v", other, of, code, err)
	}
	<-done
	if code, err := write(two, body); err != nil || code != 200 {
		t.Errorf("%s from another address: %d %v", of, code, err)
	}
	<-done
	heard := make(chan error, 1)
	go func() {
		_, err := write(one, body)
		heard <- err
	}()
	if got := <-done; got != body {
		t.Errorf("the server was told %q", got)
	}
	if code, err := write(one, body); err != nil || code != 200 {
		t.Errorf("%s, the second: %d %v", of, code, err)
	}
	select {
	case err := <-heard:
		t.Errorf("%s: the first is answered: %v", of, err)
	default:
	}
	for end := time.Now().Add(time.Minute); ; { // it is lost once the server has answered
		f, err := tap.NewClient(r.api).Fault(t.Context(), "lost")
		if err == nil && f.Hits == 1 {
			break
		}
		if err != nil || f.Hits > 1 || time.Now().After(end) {
			t.Fatalf("%+v, %v", f, err)
		}
		runtime.Gosched()
	}
	r.End("lost", "")
	if err := <-heard; err == nil {
		t.Errorf("%s: the answer came after all", of)
	}
	if code, err := write(one, body); err != nil || code != 200 {
		t.Errorf("%s afterwards: %d %v", of, code, err)
	}
}

// Each fault ends by itself, and what the API is told wrongly it refuses with a remedy.
func TestFaultsEndByThemselvesAndAreChecked(t *testing.T) {
	r := newRig(t, false)
	testkit.Must(t, Arm(t.Context(), r.api, Fault{ID: "brief", Do: Away, For: time.Millisecond}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		f, err := tap.NewClient(r.api).Fault(ctx, "brief")
		testkit.Must(t, err)
		if f.Over {
			break
		}
	}
	for want, f := range map[string]Fault{
		"do: \"late\" is no fault":             {ID: "a", Do: "late", For: time.Second},
		"delay: is missing":                    {ID: "a", Do: Slow, For: time.Second},
		"delay: is for slow":                   {ID: "a", Do: Away, Delay: time.Second, For: time.Second},
		"from: \"web\" is no IP address":       {ID: "a", Do: Away, For: time.Second, From: []string{"web"}},
		"for: \"2h0m0s\" is no duration above": {ID: "a", Do: Away, For: 2 * time.Hour},
		"do: refuse_writes and lose_reply":     {ID: "a", Do: RefuseWrites, For: time.Second},
		"of: \"\" does not go with":            {ID: "a", Do: LoseReply, For: time.Second},
		"of: \"renew\" does not go with":       {ID: "a", Do: Away, Of: "renew", For: time.Second},
		"id: there is a fault of that id":      {ID: "brief", Do: Away, For: time.Second},
	} {
		if err := Arm(t.Context(), r.api, f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
}
