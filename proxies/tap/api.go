package tap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/internal/resp"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Bounds of a fault that comes over the API: whoever has set it off may die.
const (
	defaultFor = time.Minute
	maxFor     = time.Hour
	maxBody    = 64 << 10
	maxToken   = 64 << 10
	holderIn   = 2 * time.Second
)

// faultForm is a fault as the API takes it.
type faultForm struct {
	ID       string   `json:"id"`
	Op       string   `json:"op"`
	Mode     string   `json:"mode"`
	Count    int      `json:"count"`
	Share    float64  `json:"share"`
	For      string   `json:"for"`
	Delay    string   `json:"delay"`
	Names    []string `json:"names"`
	Key      string   `json:"key"`
	Token    string   `json:"token"`
	HolderOf string   `json:"holder_of"`
}

// faultView is a fault as the API shows it. A token is never shown.
type faultView struct {
	ID      string      `json:"id"`
	Op      string      `json:"op"`
	Mode    string      `json:"mode"`
	Count   int         `json:"count,omitempty"`
	Share   float64     `json:"share,omitempty"`
	For     string      `json:"for"`
	Delay   string      `json:"delay,omitempty"`
	Names   []string    `json:"names,omitempty"`
	Key     string      `json:"key,omitempty"`
	OneOnly bool        `json:"one_token_only,omitempty"`
	State   burst.State `json:"state"`
	Why     string      `json:"why,omitempty"`
	Hits    int64       `json:"hits"`
	Spared  int64       `json:"spared"`
	Holds   int         `json:"holds"` // connections that hang, or commands held back
	Armed   time.Time   `json:"armed"`
	First   *time.Time  `json:"first_hit,omitempty"`
	Last    *time.Time  `json:"last_hit,omitempty"`
	Ended   *time.Time  `json:"ended,omitempty"`
	Struck  []Struck    `json:"struck,omitempty"` // the first operations that it hit
}

// Struck is one operation that was made to fail, as the API tells of it.
type Struck struct {
	Key   string `json:"key"`
	Epoch string `json:"epoch,omitempty"` // the token's fingerprint
}

// ListenAPI listens where only this machine can ask: at host:port on loopback, or at unix:PATH, a socket that only the caller can ask.
func ListenAPI(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenSocket(path)
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the API at %q: want host:port, or unix:PATH", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen for the API at %q: whoever reaches it can break locks, so it listens on loopback only: write 127.0.0.1, or forward a port to it", addr)
	}
	return net.Listen("tcp", addr)
}

// listenSocket makes the socket in a folder that only the caller can enter, and moves it to its name when its own mode is set.
func listenSocket(path string) (net.Listener, error) {
	if path == "" {
		return nil, errors.New(`listen for the API at "unix:": want unix:PATH`)
	}
	if err := clearSocket(path); err != nil {
		return nil, fmt.Errorf("listen for the API at %q: %w", path, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".lockdrill-")
	if err != nil {
		return nil, fmt.Errorf("listen for the API at %q: %w", path, err)
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: made})
	if err != nil {
		return nil, fmt.Errorf("listen for the API at %q: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the API at %q: %w", path, err), l.Close())
	}
	return &socket{l, path}, nil
}

// clearSocket removes a socket that a proxy which was killed has left: nobody answers there. Anything else of that name stays.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is something of that name, and it is no socket: give another path")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		return errors.Join(errors.New("somebody answers there, perhaps another proxy: give another path, or end it"), c.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}

// socket is a listener that removes its name.
type socket struct {
	net.Listener
	path string
}

func (s *socket) Close() error {
	err := s.Listener.Close()
	if err == nil {
		err = os.Remove(s.path)
	}
	return err
}

func (s *socket) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: s.path} }

// API is what a proxy serves of faults S, which it shows as V: POST and GET /faults, GET and DELETE /faults/{id}, and its own reads.
type API[S, V any] struct {
	Post  http.HandlerFunc
	All   func() []S
	ID    func(S) string
	View  func(S) V
	End   func(id, why string) (S, bool)
	Reads []Read
}

// Read is one more route: GET of its path.
type Read struct {
	Path   string
	Answer http.HandlerFunc
}

// Handler serves it to this machine.
func (a API[S, V]) Handler() http.Handler {
	mux, served := http.NewServeMux(), "POST /faults, GET /faults, GET /faults/{id}, DELETE /faults/{id}"
	one := func(find func(id string) (S, bool)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s, ok := find(r.PathValue("id"))
			if !ok {
				Refuse(w, http.StatusNotFound, Problem{"id", fmt.Sprintf("there is no fault %q", r.PathValue("id")), "GET /faults lists them"})
				return
			}
			AnswerJSON(w, http.StatusOK, a.View(s))
		}
	}
	mux.HandleFunc("POST /faults", a.Post)
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) {
		all := []V{}
		for _, s := range a.All() {
			all = append(all, a.View(s))
		}
		AnswerJSON(w, http.StatusOK, map[string]any{"faults": all})
	})
	mux.HandleFunc("GET /faults/{id}", one(func(id string) (none S, ok bool) {
		all := a.All()
		if i := slices.IndexFunc(all, func(s S) bool { return a.ID(s) == id }); i >= 0 {
			return all[i], true
		}
		return none, false
	}))
	mux.HandleFunc("DELETE /faults/{id}", one(func(id string) (S, bool) { return a.End(id, "deleted over the API") }))
	for _, r := range a.Reads {
		mux.HandleFunc("GET "+r.Path, r.Answer)
		served += ", GET " + r.Path
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, http.StatusNotFound, Problem{"", r.Method + " " + r.URL.Path + " is not served", "one of " + served})
	})
	return forThisMachine(mux)
}

// API serves the faults, GET /holders and GET /stats.
func (t *Tap) API() http.Handler {
	return API[Status, faultView]{
		Post: t.postFault, All: t.Faults, ID: func(s Status) string { return s.ID }, View: t.view, End: t.End,
		Reads: []Read{{"/holders", t.getHolders}, {"/stats", func(w http.ResponseWriter, _ *http.Request) { AnswerJSON(w, http.StatusOK, t.Stats()) }}},
	}.Handler()
}

// forThisMachine refuses what a web page may have been led to ask.
func forThisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) { // a web page that was given a name for 127.0.0.1
			Refuse(w, http.StatusForbidden, Problem{"Host", fmt.Sprintf("%q is not this machine", r.Host), "ask for http://127.0.0.1:PORT"})
			return
		}
		if origin := r.Header.Values("Origin"); len(origin) > 0 { // only a browser says so
			Refuse(w, http.StatusForbidden, Problem{"Origin", fmt.Sprintf("%q: no web page may ask", origin[0]), "curl, or any client that is no browser"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isJSON takes a media type for what it is, and not for how it begins.
func isJSON(kind string) bool {
	media, _, err := mime.ParseMediaType(kind)
	return err == nil && media == "application/json"
}

func (t *Tap) postFault(w http.ResponseWriter, r *http.Request) {
	var form faultForm
	if !Posted(w, r, &form) {
		return
	}
	f, all := form.fault()
	all = append(all, f.Check()...)
	all = append(all, t.unheard(f.Names)...)
	if form.HolderOf != "" && len(all) == 0 {
		token, p := t.holder(r.Context(), form.HolderOf)
		if p != nil {
			Refuse(w, http.StatusConflict, *p)
			return
		}
		f.Key, f.Token = Quote(form.HolderOf), token
	}
	if len(all) > 0 {
		Refuse(w, http.StatusBadRequest, all...)
		return
	}
	s, err := t.Inject(f)
	if err != nil {
		Refuse(w, http.StatusConflict, Problem{"id", err.Error(), "leave it out, or choose another"})
		return
	}
	AnswerJSON(w, http.StatusCreated, t.view(s))
}

// Posted reads the JSON object of a request, or refuses it.
func Posted(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind := r.Header.Get("Content-Type"); !isJSON(kind) { // no web page may send that unasked
		Refuse(w, http.StatusUnsupportedMediaType, Problem{"Content-Type", fmt.Sprintf("is %q", kind), "curl -H 'Content-Type: application/json'"})
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		Refuse(w, http.StatusBadRequest, Problem{"body", err.Error(), "one JSON object"})
		return false
	}
	if p := DecodeStrict(body, into); p != nil {
		Refuse(w, http.StatusBadRequest, *p)
		return false
	}
	return true
}

// fault is the form as a fault, which is then checked itself.
func (x *faultForm) fault() (f Fault, all []Problem) {
	f = Fault{ID: x.ID, Op: x.Op, Mode: x.Mode, Count: x.Count, Share: x.Share, For: defaultFor, Names: x.Names, Key: x.Key, Token: x.Token}
	for _, d := range []struct {
		field, text string
		into        *time.Duration
	}{{"for", x.For, &f.For}, {"delay", x.Delay, &f.Delay}} {
		if d.text == "" {
			continue
		}
		v, err := time.ParseDuration(d.text)
		if err != nil {
			all = append(all, Problem{d.field, fmt.Sprintf("%q is no duration", d.text), "a number with its unit, as \"30s\" or \"200ms\""})
			continue
		}
		*d.into = v
	}
	if f.For > maxFor {
		all = append(all, Problem{"for", x.For + " is above " + maxFor.String(), "a shorter one: a proxy whose controller died must heal"})
	}
	if x.HolderOf != "" && (x.Op == burst.Acquire || x.Key != "" || x.Token != "") {
		all = append(all, Problem{"holder_of", "says which key and whose token, of a lock that is held", "leave out key and token; acquires are aimed at by key"})
	}
	return f, all
}

// unheard names listeners that there are none of.
func (t *Tap) unheard(names []string) (all []Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range names {
		if t.stats[n] == nil {
			all = append(all, Problem{"names", fmt.Sprintf("nothing listens as %q", n), "a name given with --listen NAME=ADDR, or leave it out"})
		}
	}
	return all
}

// holder asks the Redis for the token that the lock's key carries now.
func (t *Tap) holder(ctx context.Context, key string) (string, *Problem) {
	bad := func(text, remedy string) (string, *Problem) {
		return "", &Problem{"holder_of", text, remedy}
	}
	const byHand = "give the key and the token itself"
	ctx, cancel := context.WithTimeout(ctx, holderIn)
	defer cancel()
	conn, err := t.o.Dial(ctx)
	if err != nil {
		return bad(fmt.Sprintf("the Redis cannot be asked: %v", err), byHand)
	}
	defer conn.Close()
	if at, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(at)
	}
	if _, err = fmt.Fprintf(conn, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key); err != nil {
		return bad(fmt.Sprintf("the Redis cannot be asked: %v", err), byHand)
	}
	var (
		scan  resp.Scanner
		reply []byte
		buf   = make([]byte, 4096)
	)
	for {
		n, err := conn.Read(buf)
		took, done, wrong := scan.Scan(buf[:n])
		reply = append(reply, buf[:took]...)
		if err = errors.Join(wrong, err); err != nil && !done || len(reply) > maxToken {
			return bad(fmt.Sprintf("the Redis does not answer: %v", err), byHand)
		}
		if done {
			break
		}
	}
	head, rest, _ := bytes.Cut(reply, []byte("\r\n"))
	switch {
	case string(head) == "$-1":
		return bad(fmt.Sprintf("nobody holds %q now", key), "wait until somebody does")
	case head[0] != '$':
		return bad(fmt.Sprintf("the Redis says %q", head), byHand)
	}
	return strings.TrimSuffix(string(rest), "\r\n"), nil
}

func (t *Tap) view(s Status) faultView {
	now, clock := time.Now(), t.o.Clock()
	wall := func(at int64) *time.Time {
		if at == 0 {
			return nil
		}
		w := now.Add(time.Duration(at - clock)).UTC()
		return &w
	}
	v := faultView{
		ID: s.ID, Op: s.Op, Mode: s.Mode, Count: s.Count, Share: s.Share, For: s.For.String(), Names: s.Names, Key: s.Key, OneOnly: s.Token != "",
		State: s.State, Why: s.Why, Hits: s.Hits, Spared: s.Spare, Holds: s.Holds, Armed: *wall(s.From), First: wall(s.First), Last: wall(s.Last), Ended: wall(s.To), Struck: s.Struck,
	}
	if s.Delay > 0 {
		v.Delay = s.Delay.String()
	}
	return v
}

// Refuse answers with what is wrong, and what can be done.
func Refuse(w http.ResponseWriter, status int, all ...Problem) {
	AnswerJSON(w, status, map[string]any{"errors": all})
}

// AnswerJSON answers with a value.
func AnswerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // whoever has gone needs no answer
}
