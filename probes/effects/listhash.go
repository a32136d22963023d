package effects

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
)

const (
	keptOfList = 64      // elements before the place that is read up to, by which it is found again
	mostOfKey  = 100_000 // elements of a list, or fields of a hash, that are read at once
)

// Columns of what has no names of its own.
const (
	valueColumn = "value" // an element of a list, the value of a field of a hash
	fieldColumn = "field" // the field
)

// valued is the row of a text: its fields where it is a JSON object, and the text itself.
func valued(text string) Row {
	row, err := parseJSON([]byte(text))
	if err != nil {
		row = Row{}
	}
	if _, ok := row[valueColumn]; !ok {
		row[valueColumn] = text
	}
	return row
}

// list reads a Redis list that is appended to on the right. It may be trimmed on the left; the elements that were read last tell where
// reading goes on.
type list struct {
	redis *at
	key   string
	begun bool
	at    int64    // elements up to here were read
	tail  []string // the last of them
}

// NewList returns a reader of the list at a key.
func NewList(o *redis.Options, key string) Reader { return &list{redis: client(o), key: key} }

func (l *list) Close() error { return l.redis.Close() }

func (l *list) Read(ctx context.Context, _ bool) (Batch, error) {
	if !l.begun {
		length, elements, err := l.elements(ctx, -keptOfList)
		if err == nil {
			l.begun, l.at, l.tail = true, length, elements
		}
		return Batch{}, err
	}
	start := l.at - int64(len(l.tail))
	length, elements, err := l.elements(ctx, start)
	if err != nil {
		return Batch{}, err
	}
	n := len(l.tail)
	if len(elements) < n || !slices.Equal(elements[:n], l.tail) { // it was trimmed, or is no log
		if length > mostOfKey {
			return Batch{Lost: l.why()}, nil
		}
		if length, elements, err = l.elements(ctx, 0); err != nil {
			return Batch{}, err
		}
		if n = goesOn(elements, l.tail); n < 0 {
			return Batch{Lost: l.why()}, nil
		}
	}
	var b Batch
	for _, text := range elements[n:] {
		b.Entries = append(b.Entries, Entry{Row: valued(text)})
	}
	l.at, l.tail = length, append(l.tail, elements[n:]...)
	l.tail = slices.Clone(l.tail[max(0, len(l.tail)-keptOfList):])
	if int64(len(l.tail)) > length {
		l.tail = l.tail[int64(len(l.tail))-length:]
	}
	return b, nil
}

func (l *list) why() string {
	return "the list " + l.key + " does not go on after what was read of it: it was trimmed further, changed, or is not appended to on the right"
}

// goesOn is the index after the elements that tail ends with, or as many of its end as the list begins with; -1 = at no place, or at
// several.
func goesOn(elements, tail []string) int {
	found := -1
	for end := len(elements); end > 0; end-- {
		n := min(end, len(tail))
		if n > 0 && slices.Equal(elements[end-n:end], tail[len(tail)-n:]) {
			if found >= 0 {
				return -1
			}
			found = end
		}
	}
	return found
}

// elements gives the length of the list, and its elements from start on.
func (l *list) elements(ctx context.Context, start int64) (int64, []string, error) {
	var length *redis.IntCmd
	var elements *redis.StringSliceCmd
	err := l.redis.ask(ctx, l.key, func(c *redis.Client) error {
		_, err := c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			length, elements = tx.LLen(ctx, l.key), tx.LRange(ctx, l.key, start, -1)
			return nil
		})
		if redis.IsExecAbortError(err) { // which does not say why: what each of them gets by itself does
			err = cmp.Or(c.LLen(ctx, l.key).Err(), c.LRange(ctx, l.key, 0, 0).Err(), err)
		}
		return err
	})
	if err != nil {
		return 0, nil, wrongType(err, l.key, "list")
	}
	return length.Val(), elements.Val(), nil
}

func (l *list) Last(ctx context.Context, n int) ([]Row, error) {
	_, elements, err := l.elements(ctx, -int64(n))
	var rows []Row
	for _, text := range elements {
		rows = append(rows, valued(text))
	}
	return rows, err
}

// hash reads a Redis hash whose fields are written over. A state that is gone by the next read was never seen.
type hash struct {
	redis *at
	key   string
	had   map[string]string
}

// NewHash returns a reader of the hash at a key.
func NewHash(o *redis.Options, key string) Reader { return &hash{redis: client(o), key: key} }

func (h *hash) Close() error { return h.redis.Close() }

func (h *hash) Read(ctx context.Context, _ bool) (Batch, error) {
	fields, err := h.all(ctx)
	if err != nil {
		return Batch{}, err
	}
	var b Batch
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if had, known := h.had[name]; h.had != nil && !(known && had == fields[name]) {
			b.Entries = append(b.Entries, Entry{Row: field(name, fields[name]), Unordered: true})
		}
	}
	h.had = fields
	return b, nil
}

func field(name, value string) Row {
	row := valued(value)
	row[fieldColumn] = name
	return row
}

func (h *hash) all(ctx context.Context) (map[string]string, error) {
	n := int64(0)
	var fields map[string]string
	err := h.redis.ask(ctx, h.key, func(c *redis.Client) (err error) {
		if n, err = c.HLen(ctx, h.key).Result(); err == nil && n <= mostOfKey {
			fields, err = c.HGetAll(ctx, h.key).Result()
		}
		return err
	})
	if err != nil {
		return nil, wrongType(err, h.key, "hash")
	}
	if n > mostOfKey {
		return nil, Declared("the hash %s has %d fields: over %d are too many to be read at once", h.key, n, mostOfKey)
	}
	return fields, nil
}

func (h *hash) Last(ctx context.Context, n int) ([]Row, error) {
	fields, err := h.all(ctx)
	var rows []Row
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		rows = append(rows, field(name, fields[name]))
	}
	return LastOf(rows, n), err
}
