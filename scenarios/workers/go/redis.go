package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Endpoint is a Redis as the configuration names it.
type Endpoint struct {
	Addr        string `json:"addr"`
	Prefix      string `json:"prefix"`
	DB          int    `json:"db"`
	UsernameEnv string `json:"username_env"`
	PasswordEnv string `json:"password_env"`
	TLS         bool   `json:"tls"`
	ServerName  string `json:"server_name"`
	CA          string `json:"ca"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
}

// Redis has as many connections as there are calls at a time. One whose call failed is closed: its reply could come late, for another call.
type Redis struct {
	at   Endpoint
	mu   sync.Mutex
	free []*conn
}

type conn struct {
	net.Conn
	r *bufio.Reader
}

// Call sends one command. An error that is no errRefused says that nobody knows whether the command took effect.
func (r *Redis) Call(timeout time.Duration, command ...any) (any, error) {
	until := time.Now().Add(timeout)
	c, err := r.take(until)
	if err != nil {
		return nil, err
	}
	reply, err := c.ask(until, command...)
	if err != nil && !errors.Is(err, errRefused) {
		c.Close()
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, c)
	return reply, err
}

func (r *Redis) take(until time.Time) (*conn, error) {
	r.mu.Lock()
	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		r.mu.Unlock()
		return c, nil
	}
	r.mu.Unlock()
	d := net.Dialer{Deadline: until}
	network := "tcp"
	if strings.HasPrefix(r.at.Addr, "/") {
		network = "unix"
	}
	raw, err := d.Dial(network, r.at.Addr)
	if err == nil && r.at.TLS {
		raw, err = r.secure(raw, until)
	}
	if err != nil {
		return nil, err
	}
	c := &conn{raw, bufio.NewReader(raw)}
	if password := os.Getenv(r.at.PasswordEnv); r.at.PasswordEnv != "" && password != "" {
		auth := []any{"AUTH"}
		if user := os.Getenv(r.at.UsernameEnv); r.at.UsernameEnv != "" && user != "" {
			auth = append(auth, user)
		}
		_, err = c.ask(until, append(auth, password)...)
	}
	if err == nil && r.at.DB != 0 {
		_, err = c.ask(until, "SELECT", r.at.DB)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (r *Redis) secure(raw net.Conn, until time.Time) (net.Conn, error) {
	cfg := &tls.Config{ServerName: r.at.ServerName}
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(r.at.Addr)
	}
	if r.at.CA != "" {
		pem, err := os.ReadFile(r.at.CA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AppendCertsFromPEM(pem)
	}
	if r.at.Cert != "" {
		own, err := tls.LoadX509KeyPair(r.at.Cert, r.at.Key)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{own}
	}
	c := tls.Client(raw, cfg)
	_ = c.SetDeadline(until)
	return c, c.Handshake()
}

var errRefused = errors.New("redis")

func (c *conn) ask(until time.Time, command ...any) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, word := range command {
		s := fmt.Sprint(word)
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(s), s)
	}
	if err := c.SetDeadline(until); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	return c.reply()
}

// reply is a string, an int64, nil, or a list of these.
func (c *conn) reply() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil || len(line) < 3 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	kind, rest := line[0], line[1:len(line)-2]
	if kind == '+' {
		return rest, nil
	}
	if kind == '-' {
		return nil, fmt.Errorf("%w: %s", errRefused, rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, err
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		body := make([]byte, n+2)
		_, err := io.ReadFull(c.r, body)
		return string(body[:n]), err
	case kind != '*':
		return nil, fmt.Errorf("no reply begins with %q", kind)
	}
	var list []any
	for range n {
		item, err := c.reply()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}
