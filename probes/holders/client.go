package holders

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/endpoint"
)

// RedisOptions say how a server is dialled.
type RedisOptions = redis.Options

// ClientOptions say where windows of MONITOR are opened, and how long they may be.
type ClientOptions struct {
	Redis    *RedisOptions
	Lives    func() []Life
	Is       Fits // of a connection's name in CLIENT LIST; nil = names are not asked for
	Window   time.Duration
	Commands int // that the server may tell in one window
	Clock    func() int64
	// Renews is how often a lock's holder renews; 0 = never.
	Renews func(lock string) time.Duration
	// OnWindow takes what each window cost. nil = nobody asks.
	OnWindow func(Cost)
}

// Client finds the connection that acquires or renews a key with its present token, in windows of MONITOR.
type Client struct {
	o      ClientOptions
	admin  *redis.Client
	port   uint16
	ends   Ends
	window sync.Mutex // one at a time

	mu      sync.Mutex
	wanted  map[string]*want      // by key and token's fingerprint
	carried map[string][]*carries // likewise: what windows showed
	rested  int64                 // until then the server has peace, unless a shot asks
	wake    chan struct{}
}

// want is a token whose connection is looked for.
type want struct {
	q        Question
	next     int64 // when the next window for it is to begin
	until    int64 // when it is given up
	key, arg []byte
	why      string // what was seen of it that leads to nobody
}

// carries is a connection that carried a token.
type carries struct {
	End
	addr string
	id   string // by CLIENT LIST; "" = not told
}

// forget is how long after its renewals did not come a token is remembered.
const forget = 10 * time.Minute

// rest is how long the server has peace between two windows, in lengths of a window.
const rest = 2

// adminWithin bounds an answer of the server to what the source itself asks.
const adminWithin = 2 * time.Second

// NewClient returns a source that opens no window yet. Its owner calls Run, and Close.
func NewClient(o ClientOptions) *Client {
	c := &Client{o: o, admin: endpoint.Client(o.Redis, adminWithin), ends: Ends{o.Lives}, wanted: map[string]*want{}, carried: map[string][]*carries{}, wake: make(chan struct{}, 1)}
	if at, err := netip.ParseAddrPort(o.Redis.Addr); err == nil {
		c.port = at.Port()
	} else if _, port, ok := strings.Cut(o.Redis.Addr, ":"); ok {
		n, _ := strconv.ParseUint(port, 10, 16)
		c.port = uint16(n)
	}
	return c
}

// Close closes its connections.
func (c *Client) Close() error { return c.admin.Close() }

// Word implements Source.
func (*Client) Word() string { return "client" }

// Recall implements Instant.
func (c *Client) Recall(q Question) Answer {
	lives := c.o.Lives()
	c.mu.Lock()
	defer c.mu.Unlock()
	var a Answer
	for _, h := range c.carried[tokenID(q.Key, q.Value)] {
		if among(lives, h.Incarnation) {
			a.Holders = add(a.Holders, h.Incarnation)
		}
	}
	if len(a.Holders) == 0 {
		a.Why = "no command with its present token was seen"
		if w := c.wanted[tokenID(q.Key, q.Value)]; w != nil && w.why != "" {
			a.Why = w.why
		}
	}
	return a
}

// Ask implements Source: whether the connections are still who they were; or, where none is known, a window, now.
func (c *Client) Ask(ctx context.Context, q Question) Answer {
	if a := c.Recall(q); len(a.Holders) == 0 {
		c.Want(q, true)
		c.open(ctx)
		return c.Recall(q)
	}
	id := tokenID(q.Key, q.Value)
	c.mu.Lock()
	known := slices.Clone(c.carried[id])
	c.mu.Unlock()
	for _, h := range known {
		if why := c.changed(ctx, h); why != "" {
			c.mu.Lock()
			c.carried[id] = slices.DeleteFunc(c.carried[id], func(o *carries) bool { return o == h })
			left := len(c.carried[id])
			c.mu.Unlock()
			if left == 0 {
				return unknown(why)
			}
		}
	}
	return c.Recall(q)
}

// changed says why a connection is not, or may not be, what it was; "" = it is.
func (c *Client) changed(ctx context.Context, h *carries) string {
	if h.id != "" {
		switch client, err := c.listed(ctx, h.addr); {
		case err != nil:
			return "it is not known whether the connection that carried its token is still open: CLIENT LIST: " + oneLine(err.Error())
		case client["id"] != h.id:
			return "the connection that carried its token is closed"
		}
	}
	if h.Inode == "" { // a pod's, or one that goes by its name
		return ""
	}
	now, err := c.ends.Of(h.addr, c.port)
	switch {
	case err != nil:
		return err.Error()
	case now != h.End:
		return "the connection that carried its token is another's by now"
	}
	return ""
}

// listed is what CLIENT LIST says of the connection from addr; nil = nothing. It may not be allowed.
func (c *Client) listed(ctx context.Context, addr string) (map[string]string, error) {
	text, err := c.admin.ClientList(ctx).Result()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		fields := map[string]string{}
		for _, f := range strings.Fields(line) {
			name, value, _ := strings.Cut(f, "=")
			fields[name] = value
		}
		if fields["addr"] == addr {
			return fields, nil
		}
	}
	return nil, nil
}

// Want asks for windows until a connection has carried the key's present token, or its renewals have not come. now = at once, else when
// the next renewal may be due.
func (c *Client) Want(q Question, now bool) {
	id, at := tokenID(q.Key, q.Value), c.o.Clock()
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.wanted[id]
	if w == nil {
		every := int64(c.o.Renews(q.Lock))
		w = &want{q: q, next: at, until: max(at, c.rested) + 3*every + int64(c.o.Window), key: quoted(q.Key), arg: quoted(q.Value)}
		if q.Since > 0 && every > 0 { // it was granted just now
			w.next = max(at, q.Since+every*8/10-int64(c.o.Window)/10)
		}
		for other, o := range c.wanted { // the token before it is nobody's any more
			if o.q.Key == q.Key {
				delete(c.wanted, other)
				delete(c.carried, other)
			}
		}
		c.wanted[id] = w
	}
	if now {
		w.next, w.until = at, max(w.until, at+int64(c.o.Window))
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run opens windows when they are due, until ctx ends.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := time.Hour
		if next, some := c.due(); some {
			wait = max(0, time.Duration(next-c.o.Clock()))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C:
			c.open(ctx)
		}
		timer.Stop()
	}
}

// due is when the next window is to begin: while locks come and go some token is always wanted, and the server is to rest.
func (c *Client) due() (next int64, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Clock()
	for id, w := range c.wanted {
		switch {
		case now > w.until+int64(forget):
			delete(c.wanted, id)
			delete(c.carried, id)
		case len(c.carried[id]) > 0, now > w.until:
		case !some || w.next < next:
			next, some = w.next, true
		}
	}
	return max(next, c.rested), some
}

// open holds one window for all tokens that are wanted now.
func (c *Client) open(ctx context.Context) {
	c.window.Lock()
	defer c.window.Unlock()
	now := c.o.Clock()
	all := c.lacking(func(w *want) bool { return w.next <= now && now <= w.until })
	if all = c.standing(ctx, all); len(all) == 0 {
		return
	}
	cost := c.monitor(ctx, all)
	if c.o.OnWindow != nil {
		c.o.OnWindow(cost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	length := cost.Took
	if cost.Cut || cost.Err != nil {
		length = c.o.Window
	}
	c.rested = c.o.Clock() + rest*int64(length)
	for _, w := range all {
		w.next = c.rested
		if cost.Err != nil {
			w.why = oneLine(cost.Err.Error())
		}
	}
}

// lacking are the tokens whose connection is not known, of those that are so.
func (c *Client) lacking(so func(*want) bool) (all []*want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.wanted {
		if len(c.carried[id]) == 0 && so(w) {
			all = append(all, w)
		}
	}
	return all
}

// standing are those whose key is still there. No command would ever carry the token of another, and its window would be waited out.
func (c *Client) standing(ctx context.Context, all []*want) (left []*want) {
	pipe := c.admin.Pipeline()
	there := make([]*redis.IntCmd, len(all))
	for i, w := range all {
		there[i] = pipe.Exists(ctx, w.q.Key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return all // the window will say what is wrong
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range all {
		if there[i].Val() > 0 {
			left = append(left, w)
			continue
		}
		delete(c.wanted, tokenID(w.q.Key, w.q.Value))
	}
	return left
}

// took takes a command of a connection that carried a wanted token; done = that leads to a replica.
func (c *Client) took(ctx context.Context, w *want, addr string) (done bool) {
	client, _ := c.listed(ctx, addr) // the connection's end is asked of this host as well
	end, err := c.ends.Of(addr, c.port)
	if err != nil && c.o.Is != nil && client["name"] != "" {
		if a := named(c.o.Lives(), c.o.Is, client["name"]); len(a.Holders) == 1 {
			end, err = End{Incarnation: a.Holders[0]}, nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		w.why = fmt.Sprintf("a command with its present token came from %.60s: %v", addr, err)
		return false
	}
	id := tokenID(w.q.Key, w.q.Value)
	same := func(h *carries) bool { return h.End == end && h.addr == addr }
	if !slices.ContainsFunc(c.carried[id], same) {
		c.carried[id] = append(c.carried[id], &carries{end, addr, client["id"]})
	}
	return true
}
