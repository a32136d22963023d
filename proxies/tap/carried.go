package tap

import (
	"net/http"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// mostCarried bounds how many keys the tap remembers the carriers of.
const mostCarried = 50_000

// Carrier is a connection that sent an acquire or a renewal of a key, and the fingerprint of the token that it sent.
type Carrier struct {
	Epoch  string `json:"epoch"`
	Name   string `json:"name"`   // of the listener
	Client string `json:"client"` // host:port
}

// carry notes who carries a token. Whoever asks for a key in vain is noted too, with a token that the key does not get.
func (t *Tap) carry(c *conn, op *Operation) {
	if op.Op != burst.Acquire && op.Op != burst.Renew || len(op.Keys) != 1 || len(op.Token) == 0 {
		return
	}
	now := Carrier{lockcore.Fingerprint(string(op.Token)), c.name, c.client.RemoteAddr().String()}
	t.carrying.Lock()
	defer t.carrying.Unlock()
	key := string(op.Keys[0])
	all, known := t.carried[key]
	for i := range all {
		if all[i] == now {
			return
		}
	}
	if !known && len(t.carried) >= mostCarried {
		clear(t.carried)
	}
	if len(all) >= mostCarriers {
		all = append(all[:0:0], all[1:]...)
	}
	t.carried[key] = append(all, now)
}

// mostCarriers of one key are remembered, the latest: contenders that ask for it are among them.
const mostCarriers = 64

// Carriers are the connections that carried tokens of a key, the latest last.
func (t *Tap) Carriers(key string) []Carrier {
	t.carrying.Lock()
	defer t.carrying.Unlock()
	return append([]Carrier{}, t.carried[key]...)
}

func (t *Tap) getHolders(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if key == "" {
		Refuse(w, http.StatusBadRequest, Problem{"key", "is missing", "GET /holders?key=KEY"})
		return
	}
	AnswerJSON(w, http.StatusOK, map[string]any{"holders": t.Carriers(key)})
}
