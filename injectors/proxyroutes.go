package injectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/proxies/toxi"
)

// revertWay climbs from the gentlest way to end a fault to the roughest: remove the toxics (open connections stay); disable the proxy,
// remove them, enable it (open connections are closed); put a successor on the same address (what hangs in the old one is left). A proxy
// of somebody's own gets the gentlest only.
func revertWay(ctx context.Context, w undo.ProxyRoute) error {
	if w.Own != 0 && errors.Is(syscall.Kill(w.Own, 0), syscall.ESRCH) {
		return nil // the server was in that process
	}
	c := toxi.New(w.API)
	p, err := c.Proxy(ctx, w.Proxy)
	switch {
	case errors.Is(err, toxi.ErrNotFound):
		return nil
	case errors.Is(err, syscall.ECONNREFUSED) && w.Own != 0:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && !w.Theirs:
		return succeed(ctx, c, w, toxi.Proxy{Listen: w.Listen, Upstream: w.Upstream})
	case err != nil:
		return err
	case free(p, w):
		return nil
	}
	gentle := removeToxics(ctx, c, p, w)
	if w.Down && !p.Enabled {
		gentle = errors.Join(gentle, c.Enable(ctx, w.Proxy, true))
	}
	if gentle == nil {
		if gentle = readBack(ctx, c, w); gentle == nil {
			return nil
		}
	}
	if w.Theirs {
		return gentle
	}
	if !errors.Is(gentle, context.DeadlineExceeded) { // what hangs is not asked again
		if rough := toggle(ctx, c, p, w); rough == nil {
			return nil
		}
	}
	if err := succeed(ctx, c, w, p); err != nil {
		return errors.Join(gentle, err)
	}
	return nil
}

// stillDown sees whether somebody's own proxy is disabled.
func stillDown(ctx context.Context, w undo.ProxyRoute) error {
	p, err := toxi.New(w.API).Proxy(ctx, w.Proxy)
	if err == nil && !p.Enabled {
		err = fmt.Errorf("%w: the proxy is disabled; enable it, unless somebody else has disabled it", undo.ErrStill)
	}
	return err
}

// ours lists the toxics on the proxy that are the fault's.
func ours(p toxi.Proxy, w undo.ProxyRoute) []string {
	var names []string
	for _, t := range p.Toxics {
		if slices.Contains(w.Toxics, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

func free(p toxi.Proxy, w undo.ProxyRoute) bool {
	return len(ours(p, w)) == 0 && (p.Enabled || !w.Down)
}

func readBack(ctx context.Context, c *toxi.Client, w undo.ProxyRoute) error {
	p, err := c.Proxy(ctx, w.Proxy)
	switch {
	case errors.Is(err, toxi.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !free(p, w):
		return errors.New("the fault is still there")
	}
	return nil
}

func removeToxics(ctx context.Context, c *toxi.Client, p toxi.Proxy, w undo.ProxyRoute) error {
	for _, name := range ours(p, w) {
		if err := c.Remove(ctx, w.Proxy, name); err != nil && !errors.Is(err, toxi.ErrNotFound) {
			return err
		}
	}
	return nil
}

func toggle(ctx context.Context, c *toxi.Client, p toxi.Proxy, w undo.ProxyRoute) error {
	if err := c.Enable(ctx, w.Proxy, false); err != nil {
		return err
	}
	if err := errors.Join(removeToxics(ctx, c, p, w), c.Enable(ctx, w.Proxy, true)); err != nil {
		return err
	}
	return readBack(ctx, c, w)
}

// succeedWithin bounds how long a successor may wait for the address.
const succeedWithin = 2 * time.Second

// succeed puts a proxy of the next name on the address of one that hangs. Disabling closes the old one's listener even where the call
// then hangs. The old one is never deleted: that would make the whole server hang.
func succeed(ctx context.Context, c *toxi.Client, w undo.ProxyRoute, p toxi.Proxy) error {
	next := toxi.Next(w.Proxy)
	if now, err := c.Proxy(ctx, next); err == nil { // done before, by this process or another
		if now.Listen == w.Listen && now.Enabled && len(ours(now, w)) == 0 {
			return nil
		}
		return fmt.Errorf("proxy %s exists and is not free", next)
	}
	if p.Upstream == "" {
		return fmt.Errorf("proxy %s does not answer: %w", w.Proxy, context.DeadlineExceeded)
	}
	_ = c.Enable(ctx, w.Proxy, false)
	limit, cancel := context.WithTimeout(ctx, succeedWithin)
	defer cancel()
	var err error
	for range poll.Every(limit, 50*time.Millisecond) {
		_, err = c.Create(limit, toxi.Proxy{Name: next, Listen: p.Listen, Upstream: p.Upstream, Enabled: true})
		if err == nil || errors.Is(err, toxi.ErrExists) {
			return nil
		}
	}
	return fmt.Errorf("proxy %s hangs, and no other could be put on %s: %w", w.Proxy, p.Listen, err)
}
