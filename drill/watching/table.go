// Package watching looks at the locks of a running system without a fault: who holds them, how long their leases are, how often they are
// renewed, and how they end. It writes nothing to any store, and of a key's value it keeps the fingerprint only.
//
// Its one invariant: a figure was seen. What a look cannot tell, such as a theft from a release and a grant between two looks, is not
// decided here.
package watching

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/history"
)

// Table is what was seen of each key. The zero Table is empty.
type Table struct {
	keys map[string]*Key
}

// Key is what was seen of one lock key, or of one Lease object.
type Key struct {
	Name   string
	Lease  bool   // it is a Lease object
	Holder string // fingerprint of the value, or of the record of a Lease; "" = it is free
	left   time.Duration
	at     int64 // when that much was left

	Grants, Renewals, Releases int
	Expiries                   int // without a release
	Taken                      int // another value although the lease was not over: a theft, or a release and a grant between two looks

	values     draft.Values    // of what stood in it
	leased     bool            // it was seen with an expiry
	last       string          // fingerprint of the last value
	changed    bool            // it was seen with several
	ttl, width time.Duration   // the most that was left right after a grant or a renewal, and how exactly that instant is known
	renewed    int64           // the last grant or renewal, in the middle of its bracket; 0 = not seen
	granted    int64           // the grant; 0 = before the watch began
	ended      int64           // when it was seen to be free
	renewals   []time.Duration // between two
	pickups    []time.Duration // from an end to the next grant
	holds      []time.Duration // from a grant to the end
	cycles     []time.Duration // from a grant to the next
	lastGrant  int64
}

// mostSamples bounds the memory of one figure of one key: the first ones are kept.
const mostSamples = 1000

func add(to *[]time.Duration, d int64) {
	if len(*to) < mostSamples {
		*to = append(*to, time.Duration(d))
	}
}

var (
	uuid   = regexp.MustCompile(`^(?i)[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}(:\d+)?$`) // Redisson's has the thread behind it
	hexed  = regexp.MustCompile(`^(?i)[0-9a-f]{16,}$`)
	packed = regexp.MustCompile(`^[A-Za-z0-9+/_-]{16,}={0,2}$`)
)

// kindOf tells what a value is, without keeping it.
func kindOf(value string) draft.Values {
	mixed := strings.ContainsAny(value, "0123456789") && strings.ToLower(value) != value && strings.ToUpper(value) != value
	switch {
	case value == "":
		return ""
	case uuid.MatchString(value), hexed.MatchString(value), packed.MatchString(value) && mixed:
		return draft.Tokens
	}
	return draft.Names
}

// note takes in what a look showed, and what its value is.
func (t *Table) note(s Seen) {
	t.See(s.Event)
	if s.Values != "" {
		t.keys[s.Key].values = s.Values
	}
}

// See takes in what a probe's look showed. Other events it leaves alone.
func (t *Table) See(e history.Event) {
	if e.Kind != history.LookKind || e.Look == nil {
		return
	}
	if t.keys == nil {
		t.keys = map[string]*Key{}
	}
	k := t.keys[e.Key]
	if k == nil {
		k = &Key{Name: e.Key, Lease: strings.HasSuffix(e.Source, "leases")}
		t.keys[e.Key] = k
	}
	k.see(e)
}

func (k *Key) see(e history.Event) {
	from, to := e.Span.From, e.Span.To
	if e.Look.Prev != nil {
		from = e.Look.Prev.From
	}
	middle, width := from+(to-from)/2, time.Duration(to-from)
	was, is := k.Holder, ""
	if e.Look.Present {
		is = e.Epoch
	}
	over := k.left >= 0 && time.Duration(e.Span.To-k.at) >= k.left // the lease may have been over by then
	switch {
	case was == "" && is == "":
		return
	case was == "":
		k.grant(middle, e.Look.Prev != nil)
	case is == "" && over:
		k.Expiries++
		k.end(middle)
	case is == "":
		k.Releases++
		k.end(middle)
	case was != is && over:
		k.Expiries++
		k.end(middle)
		k.grant(middle, true)
	case was != is:
		k.Taken++
		k.end(middle)
		k.grant(middle, true)
	default:
		k.Renewals++
		if k.renewed != 0 {
			add(&k.renewals, middle-k.renewed)
		}
		k.renewed = middle
	}
	if is != "" && e.Look.Prev != nil && e.Look.PTTL > 0 {
		if left := time.Duration(e.Look.PTTL); left > k.ttl {
			k.ttl, k.width = left, width
		}
	}
	if is != "" {
		k.changed, k.last = k.changed || k.last != "" && is != k.last, is
	}
	k.leased = k.leased || is != "" && e.Look.PTTL >= 0
	k.Holder, k.left, k.at = is, time.Duration(e.Look.PTTL), e.Span.From
}

func (k *Key) grant(at int64, seen bool) {
	if !seen { // it was held when the watch began
		return
	}
	k.Grants++
	if k.ended != 0 {
		add(&k.pickups, at-k.ended)
	}
	if k.lastGrant != 0 {
		add(&k.cycles, at-k.lastGrant)
	}
	k.granted, k.lastGrant, k.renewed = at, at, at
}

func (k *Key) end(at int64) {
	if k.granted != 0 {
		add(&k.holds, at-k.granted)
	}
	k.ended, k.granted, k.renewed = at, 0, 0
}

// Row is a key, or the keys of jobs under one prefix, as a table shows it.
type Row struct {
	Name       string        `json:"key"` // with a star: a pattern, and the figures are those of all keys that fit it
	Lease      bool          `json:"lease,omitempty"`
	Keys       int           `json:"keys"`             // seen
	Held       int           `json:"held"`             // now
	Holder     string        `json:"holder,omitempty"` // fingerprint; of a single key
	Left       time.Duration `json:"left_ns,omitempty"`
	NoExpiry   bool          `json:"no_expiry,omitempty"`
	TTL        time.Duration `json:"ttl_ns,omitempty"`           // 0 = neither a grant nor a renewal was seen
	RenewEvery time.Duration `json:"renewed_every_ns,omitempty"` // median; 0 = fewer than two were seen
	Grants     int           `json:"grants"`
	Renewals   int           `json:"renewals"`
	Releases   int           `json:"releases"`
	Expiries   int           `json:"expiries"`
	Taken      int           `json:"taken"`
	Values     draft.Values  `json:"values,omitempty"` // tokens: random words; names: words that may name the holder

	members []*Key
}

// Rows are what was seen, in the order of names. now is of the clock of the looks.
func (t *Table) Rows(now int64) []Row {
	groups := map[string][]*Key{}
	for _, k := range t.keys {
		if !k.leased && !k.Lease { // without an expiry it is no lock, but some other text
			continue
		}
		name := k.Name
		if !k.Lease {
			name = Group(k.Name)
		}
		groups[name] = append(groups[name], k)
	}
	var rows []Row
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		members := groups[name]
		if len(members) == 1 {
			name = members[0].Name
		}
		slices.SortFunc(members, func(a, b *Key) int { return cmp.Compare(a.Name, b.Name) })
		rows = append(rows, rowOf(name, members, now))
	}
	return rows
}

// Group is how a key is called among others: with a star for the id of a job. That is what stands behind the last colon or slash and has a
// digit, or between the last two and is nothing but an id. Another key is its own group.
func Group(key string) string {
	at := strings.LastIndexAny(key, ":/")
	if at < 0 || at == len(key)-1 {
		return key
	}
	if strings.ContainsAny(key[at+1:], "0123456789") {
		return key[:at+1] + "*"
	}
	if before := strings.LastIndexAny(key[:at], ":/"); before >= 0 && idAlone.MatchString(key[before+1:at]) {
		return key[:before+1] + "*" + key[at:]
	}
	return key
}

var idAlone = regexp.MustCompile(`^([0-9]+|[0-9a-f]{8}[0-9a-f-]*)$`)

func rowOf(name string, members []*Key, now int64) Row {
	r := Row{Name: name, Keys: len(members), Lease: members[0].Lease, members: members}
	var renewals []time.Duration
	for _, k := range members {
		if k.Holder != "" {
			r.Held++
			r.Holder, r.Left, r.NoExpiry = k.Holder, max(0, k.left-time.Duration(now-k.at)), k.left < 0
		}
		if ttl := k.lease(); ttl > r.TTL {
			r.TTL = ttl
		}
		if k.values != "" {
			r.Values = k.values
		}
		renewals = append(renewals, k.renewals...)
		r.Grants += k.Grants
		r.Renewals += k.Renewals
		r.Releases += k.Releases
		r.Expiries += k.Expiries
		r.Taken += k.Taken
	}
	if len(members) > 1 {
		r.Holder, r.Left, r.NoExpiry = "", 0, false
	}
	r.RenewEvery = median(renewals)
	return r
}

// lease is the TTL that was asked for: the roundest time that what was left right afterwards allows.
func (k *Key) lease() time.Duration {
	for _, unit := range []time.Duration{time.Minute, 10 * time.Second, time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} {
		if rounded := (k.ttl + unit - 1) / unit * unit; rounded-k.ttl <= k.width+2*time.Millisecond {
			return rounded
		}
	}
	return k.ttl
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
