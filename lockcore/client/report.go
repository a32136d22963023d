package client

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/claims"
)

func (c *Client) emit(events []history.Event) {
	for _, e := range events {
		c.sink(e)
	}
}

// holder is who claims something of an epoch.
func (h *Handle) holder(epoch string, fence int64) claims.Holder {
	return claims.Holder{Source: h.c.source, Lock: h.c.lock, Key: h.key, Epoch: epoch, Fence: fence}
}

// announce emits the invoke event of a call that is about to be made, and names the operation.
func (h *Handle) announce(t task, at time.Duration) (op string) {
	if h.c.sink == nil {
		return ""
	}
	op = h.c.nextOp()
	by := h.holder(t.epoch, t.fence)
	h.c.sink(by.Invoke(&t.call, op, int64(at)))
	return op
}

// answer emits the return event of a call.
func (h *Handle) answer(t task, op string, at history.Span, reply lockcore.Input, err error) {
	if h.c.sink == nil {
		return
	}
	a := claims.AnswerOf(err, plainText(err))
	a.Result, a.Fence = reply.Result, reply.Fence
	by := h.holder(t.epoch, t.fence)
	h.c.sink(by.Return(&t.call, op, at, &a))
}

// report appends the events that an action of the machine stands for; its calls report themselves.
func (h *Handle) report(events []history.Event, now lockcore.Instant, a lockcore.Action) []history.Event {
	if h.c.sink == nil {
		return nil
	}
	if a.Kind == lockcore.ActWait {
		h.waitOp = h.c.nextOp()
	}
	by := h.holder(h.epoch, h.fence)
	return by.Append(events, &a, h.waitOp, int64(now.Mono))
}
