package sim

import "time"

// Freeze makes the store's process stand still until Thaw: what arrives meanwhile is done then.
func (w *World) Freeze() {
	w.store.frozen = true
	w.gone()
}

// Thaw ends Freeze.
func (w *World) Thaw() {
	w.store.frozen = false
	w.drain(true)
	w.back()
}

// PauseWrites makes writes wait until ResumeWrites; those of callers that have gone by then are dropped with their connections.
func (w *World) PauseWrites() { w.store.paused = true }

// ResumeWrites ends PauseWrites.
func (w *World) ResumeWrites() {
	w.store.paused = false
	w.drain(false)
}

func (w *World) drain(all bool) {
	waiting := w.store.waiting
	w.store.waiting = nil
	for _, c := range waiting {
		if gone := c.closed || c.lease.r.dead; all || !gone {
			w.execute(c)
		}
	}
}

// StopStore ends the store's process, and with it every connection. Its data survives, or is gone at once.
func (w *World) StopStore(keep bool) {
	w.store.down = true
	if !keep {
		w.Flush()
	}
	w.gone()
	w.store.waiting = nil
	w.breakCalls(func(*replica) bool { return true }, "connection closed")
}

// StartStore starts the store again.
func (w *World) StartStore() {
	w.store.down = false
	w.back()
	w.life("run_id_changed")
}

// Flush removes all of the locks' store's data.
func (w *World) Flush() {
	w.table.Flush()
	for _, k := range w.sorted() {
		if w.expire(k); k.holder != 0 {
			w.free(k)
		}
	}
	if !w.store.down {
		w.life("marker_lost")
	}
}

// CutStandby notes what a standby has: what is written from now on is lost at FailOver.
func (w *World) CutStandby() { w.lost = w.table.Snapshot() }

// FailOver puts the standby in the store's place, with what it had when it was cut off.
func (w *World) FailOver() {
	w.StopStore(true)
	if w.lost != nil { // else another fail-over has put it in place
		w.table, w.lost = w.lost, nil
	}
	for _, k := range w.sorted() {
		w.expire(k)
		token, ends, held := w.table.Holder(w.server(), k.name)
		n := w.tokenOf(token)
		if k.holder != 0 && (!held || n != k.holder) {
			w.free(k)
		}
		if held {
			w.holds(k, n, int64(ends.Sub(time.Unix(origin, 0))))
		}
	}
	w.store.down = false
	w.back()
	w.life("run_id_changed")
}

func (w *World) tokenOf(token string) int {
	for i := range w.names {
		if w.names[i].token == token {
			return i + 1
		}
	}
	return 0
}

// Take frees a key under its holder, as long as it carries that epoch. With d above 0 the key then carries a stranger's token for so
// long, which Untake removes. ok is false where the key did not carry the epoch.
func (w *World) Take(key, epoch string, d time.Duration) (stranger int, ok bool) {
	k := w.keys[key]
	if now, held := w.Holder(key); !held || now != epoch {
		return 0, false
	}
	w.free(k)
	token := ""
	if d > 0 {
		stranger = w.newToken(&lease{w: w, r: &replica{w: w}, lock: &Lock{Name: k.lock}, key: k})
		token = w.names[stranger-1].token
		w.truth.Epochs[stranger-1].Stranger = true
		w.truth.storeGranted(stranger, w.now, 0)
	}
	w.table.Take(w.server(), key, token, d)
	if d > 0 {
		w.holds(k, stranger, w.now+int64(d))
	}
	return stranger, true
}

// Untake removes a stranger's token, if the key still carries it.
func (w *World) Untake(key string, stranger int) {
	k := w.keys[key]
	if w.expire(k); stranger != 0 && k.holder == stranger {
		w.table.Take(w.server(), key, "", 0)
		w.free(k)
	}
}

// breakCalls ends the connections of the replicas: who waits for a reply hears that it will not come.
func (w *World) breakCalls(of func(*replica) bool, text string) {
	for _, r := range w.order {
		if r.dead || !of(r) {
			continue
		}
		for _, c := range w.flying(r) {
			c.silent, c.broken, c.text = true, true, text
			w.about(c, atClient, w.now+w.flight())
		}
	}
}

// flying are the calls of a replica that wait for a reply.
func (w *World) flying(r *replica) []*call {
	var calls []*call
	for _, l := range r.leases {
		if c := l.flying; c != nil && !c.closed && !c.late {
			calls = append(calls, c)
		}
	}
	return calls
}
