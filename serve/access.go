package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/lockdrill/lockdrill/internal/regular"
)

// Role is what a token allows.
type Role string

// Roles. Anybody is for what tells nothing: whether the server lives.
const (
	Anybody Role = ""
	Read    Role = "read"
	Upload  Role = "upload"
)

// Roles are those that a token may have.
func Roles() []Role { return []Role{Read, Upload} }

// Access says who may do what. On a loopback address everybody may read; everything else needs a token.
type Access struct {
	Tokens string   // file of tokens; "" = none
	Hosts  []string // by which the server may be called besides its address
}

// Caller is whom a request comes from.
type Caller struct {
	Name  string // of a token; "" = somebody on this machine
	Roles []Role
}

// May reports whether the caller has a role.
func (c Caller) May(r Role) bool { return slices.Contains(c.Roles, r) }

type callerKey struct{}

// by is whom a request comes from.
func by(r *http.Request) Caller {
	c, _ := r.Context().Value(callerKey{}).(Caller)
	return c
}

// token is a line of the file of tokens: a name, its roles, and the token's sum.
type token struct {
	Caller
	sum []byte
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// readTokens reads a file of tokens, which others must not be able to read.
func readTokens(path string) ([]token, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o027 != 0 {
		return nil, fmt.Errorf("%s: others may read or change it (mode %04o): chmod 600 %s", path, info.Mode().Perm(), path)
	}
	data := make([]byte, min(info.Size(), 1<<20))
	if _, err := f.Read(data); err != nil && len(data) > 0 {
		return nil, err
	}
	var all []token
	for n, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		t, err := parseToken(line)
		if err == nil && slices.ContainsFunc(all, func(o token) bool { return o.Name == t.Name }) {
			err = fmt.Errorf("a second line for %s", t.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
		}
		all = append(all, t)
	}
	return all, nil
}

func parseToken(line string) (t token, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return t, errors.New("want NAME ROLES SUM, such as: nightly upload sha256:6b86..; lockdrill serve token writes such lines")
	}
	if t.Name = fields[0]; !tokenName.MatchString(t.Name) {
		return t, fmt.Errorf("name %q: want letters, digits and ._@-", t.Name)
	}
	for _, word := range strings.Split(fields[1], ",") {
		if word == "run" || word == "approve" {
			return t, fmt.Errorf("role %q went with the drills that the server started (docs/schedules.md): roles are %s", word, roleWords())
		}
		if !slices.Contains(Roles(), Role(word)) {
			return t, fmt.Errorf("role %q: roles are %s", word, roleWords())
		}
		t.Roles = append(t.Roles, Role(word))
	}
	hexed, ok := strings.CutPrefix(fields[2], "sha256:")
	if t.sum, err = hex.DecodeString(hexed); err != nil || !ok || len(t.sum) != sha256.Size {
		return t, errors.New("the third word is no sum of a token: want sha256: and 64 hexadecimal digits")
	}
	return t, nil
}

func roleWords() string {
	var words []string
	for _, r := range Roles() {
		words = append(words, string(r))
	}
	return strings.Join(words, ", ")
}

// AddToken makes a token with the roles, notes its sum in a file, and returns it: it is written nowhere.
func AddToken(path, name string, roles []string) (string, error) {
	secret := "ld_" + rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(secret))
	line := fmt.Sprintf("%s %s sha256:%x", name, strings.Join(roles, ","), sum)
	t, err := parseToken(line)
	if err != nil {
		return "", err
	}
	if all, err := readTokens(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	} else if slices.ContainsFunc(all, func(o token) bool { return o.Name == t.Name }) {
		return "", fmt.Errorf("%s has a line for %s: remove it first, or take another name", path, t.Name)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600) // a pipe that nobody reads is an error
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(line + "\n")
	return secret, errors.Join(err, f.Close())
}

// check refuses what would let strangers read.
func (a *Access) check(listen string) error {
	if !isLoopback(listen) && a.Tokens == "" {
		return fmt.Errorf("%s is not a loopback address, so others can reach it: give --tokens FILE (lockdrill serve token makes one)", listen)
	}
	if a.Tokens != "" {
		all, err := readTokens(a.Tokens)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("%s: no token in it: lockdrill serve token --tokens %s NAME read", a.Tokens, a.Tokens)
		}
	}
	return nil
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// openToRead reports whether whoever reaches the server may read.
func (s *Server) openToRead() bool { return isLoopback(s.o.Listen) }

// caller finds out whom a request comes from. An empty one has said nothing of itself; an error is what was said and is not true.
func (s *Server) caller(r *http.Request) (c Caller, err error) {
	a := &s.o.Access
	var tokens []token
	if a.Tokens != "" {
		if tokens, err = readTokens(a.Tokens); err != nil { // at each request: a line that is removed counts at once
			s.say("tokens: %v", err)
			return c, errors.New("the server cannot read its tokens")
		}
	}
	secret, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name, password, ok := r.BasicAuth(); ok { // a browser, or curl -u
		_, secret, given = name, password, true
	}
	if !given {
		return c, nil
	}
	sum := sha256.Sum256([]byte(secret))
	for i := range tokens {
		if subtle.ConstantTimeCompare(tokens[i].sum, sum[:]) == 1 {
			c = tokens[i].Caller
		}
	}
	if c.Name == "" {
		return c, errors.New("the token is not known here")
	}
	return c, nil
}

// admit lets a request through, with whom it comes from.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, need Role) (*http.Request, error) {
	if need == Anybody {
		return r, nil
	}
	if why := s.foreign(r); why != "" {
		return r, refuse(http.StatusForbidden, "%s", why)
	}
	c, err := s.caller(r)
	switch {
	case err == nil && (c.May(need) || need == Read && s.openToRead()):
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, c)), nil
	case err == nil && c.Name != "":
		return r, refuse(http.StatusForbidden, "%s does not have the role %s", c.Name, need)
	case err == nil && s.o.Access.Tokens == "":
		err = fmt.Errorf("this needs a token with the role %s, and the server was started without --tokens", need)
	case err == nil:
		err = fmt.Errorf("this needs a token with the role %s", need)
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="lockdrill: any name, and a token as password", charset="UTF-8"`)
	return r, refuse(http.StatusUnauthorized, "%v", err)
}

// foreign says why a request comes from somebody else's page; "" if it does not. A name that is made to lead to this address (DNS
// rebinding) is known by its name, and a page of another origin by what browsers say of it.
func (s *Server) foreign(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(r.Host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if s.openToRead() && !isLoopback(host) && !slices.Contains(s.o.Access.Hosts, host) {
		return fmt.Sprintf("the server does not know itself by the name %q: --host gives it more names", host)
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return "the request comes from a page of another origin"
	}
	from := r.Header.Get("Sec-Fetch-Site")
	if from != "" && from != "same-origin" && from != "none" && r.Header.Get("Sec-Fetch-Mode") != "navigate" { // a link that somebody follows is welcome
		return "the request comes from a page of another origin"
	}
	if o := r.Header.Get("Origin"); o != "" && o != "http://"+r.Host && o != "https://"+r.Host {
		return "the request comes from a page of another origin"
	}
	return ""
}

// headers are those of every answer: nothing of it is run, framed, kept by proxies or read by other origins.
func (s *Server) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "private, no-cache")
		next.ServeHTTP(w, r)
	})
}
