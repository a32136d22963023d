package apiproxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
)

// mostBody is more than a Lease is long.
const mostBody = 1 << 20

// written says what a request writes, "" for anything else. It leaves the body as it was.
func (p *Proxy) written(r *http.Request) string {
	if r.Method != http.MethodPost && r.Method != http.MethodPut || r.ContentLength > mostBody {
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	if err != nil {
		return ""
	}
	return p.o.Written(r.URL.Path, body)
}

// losing keeps the answer to one such write for itself, if the server has carried it out. Whoever waits for it hears nothing until the fault
// is over, and then that the request was cut off.
func (p *Proxy) losing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		f := p.lose(from, r)
		if f == nil {
			next.ServeHTTP(w, r)
			return
		}
		answer, lost := &answer{header: http.Header{}, code: http.StatusOK}, false
		func() {
			defer func() { p.lost(f, lost) }() // also where the server is away, and that handler panics
			next.ServeHTTP(answer, r)
			lost = answer.code < http.StatusMultipleChoices // else nothing was done
		}()
		if !lost {
			answer.send(w)
			return
		}
		select {
		case <-f.over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	})
}

// lose is the fault in effect that takes the answer to r, and no other meanwhile.
func (p *Proxy) lose(from string, r *http.Request) *armed {
	p.mu.Lock()
	f := p.inEffect(LoseReply, from)
	p.mu.Unlock()
	if f == nil || p.written(r) != f.Of {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Ended != nil || f.taken {
		return nil
	}
	f.taken = true
	return f
}

// lost counts the answer that the fault has taken, or lets it take another.
func (p *Proxy) lost(f *armed, hit bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.taken = hit; hit {
		f.Hits++
	}
}

// answer is what the server said, until it is known whether it is passed on.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body.Bytes())
}
