package effects

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/endpoint"
)

const (
	page        = 1000 // entries of one request
	pagesOfRead = 20   // of a read that is not the final one
)

const answerWithin = 5 * time.Second

// client is a reader's own connection.
func client(o *redis.Options) *at { return &at{o: o, one: endpoint.Client(o, answerWithin)} }

// at is where a key is: at the server that is named, or, once that says that another one has it or does not answer, in the cluster that both
// belong to.
type at struct {
	o       *redis.Options
	one     *redis.Client
	cluster *redis.ClusterClient // nil = it was not asked for yet, or there is none
	asked   bool
	away    bool // it is not at one any more
}

func (c *at) Close() error {
	if c.cluster != nil {
		return errors.Join(c.one.Close(), c.cluster.Close())
	}
	return c.one.Close()
}

// learn asks a server that answers which others there are: once it is dead, nobody else says where the key is.
func (c *at) learn(ctx context.Context, key string) {
	c.asked, c.cluster = true, endpoint.Cluster(c.o, answerWithin)
	if _, err := c.cluster.MasterForKey(ctx, key); err != nil { // it is in no cluster
		_ = c.cluster.Close()
		c.cluster = nil
	}
}

// ask asks the server that has the key, and once more where it was another's by then. Of one that does not answer, the next call learns
// whether it still has it.
func (c *at) ask(ctx context.Context, key string, do func(*redis.Client) error) error {
	server, err := c.server(ctx, key)
	if err != nil {
		return err
	}
	var said redis.Error
	if err = do(server); !c.asked && (err == nil || errors.As(err, &said)) {
		c.learn(ctx, key)
	}
	if err == nil {
		return nil
	}
	why := err
	if redis.IsExecAbortError(err) { // which does not say why
		why = server.Exists(ctx, key).Err()
	}
	moved := why != nil && strings.HasPrefix(why.Error(), "MOVED ")
	if moved && c.cluster == nil {
		c.cluster = endpoint.Cluster(c.o, answerWithin)
	} else if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
	c.away = c.away || moved || c.cluster != nil && !errors.As(why, &said)
	if !moved {
		return err
	}
	if server, err = c.server(ctx, key); err != nil {
		return err
	}
	return do(server)
}

func (c *at) server(ctx context.Context, key string) (*redis.Client, error) {
	if !c.away {
		return c.one, nil
	}
	return c.cluster.MasterForKey(ctx, key)
}

// wrongType makes the server's word on a key of another type one for a person.
func wrongType(err error, key, wanted string) error {
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return Declared("the key %s is no %s", key, wanted)
	}
	return err
}

// stream reads a Redis stream. Its ids have natural holes; how many entries it has ever had (since 7.0), or that the last one that was
// read is still there, says that none was trimmed unread.
type stream struct {
	redis *at
	key   string
	begun bool
	id    string // of the last entry that was read, or that there ever was when reading began
	base  int64  // entries that there ever were then
	read  int64  // since
}

// NewStream returns a reader of the stream at a key.
func NewStream(o *redis.Options, key string) Reader { return &stream{redis: client(o), key: key} }

func (s *stream) Close() error { return s.redis.Close() }

func (s *stream) Read(ctx context.Context, final bool) (Batch, error) {
	var b Batch
	if !s.begun {
		info, _, err := s.page(ctx, "", 0)
		if err == nil {
			s.begun, s.id, s.base = true, info.LastGeneratedID, info.EntriesAdded
		}
		return b, err
	}
	id, read := s.id, s.read
	for i := 0; ; i++ {
		if b.Partial = !final && i == pagesOfRead; b.Partial {
			break
		}
		info, messages, err := s.page(ctx, id, page+1)
		if err != nil {
			return Batch{}, err
		}
		there := len(messages) > 0 && messages[0].ID == id
		if there {
			messages = messages[1:]
		}
		for _, m := range messages {
			b.Entries = append(b.Entries, Entry{Row: rowOf(m)})
			id, read = m.ID, read+1
		}
		if len(messages) < page {
			b.Lost = s.lost(info, id, read, there, len(messages))
			break
		}
	}
	s.id, s.read = id, read
	return b, nil
}

// lost says why entries may be gone unread, after a page that reached the end of the stream: id is its last entry, of read entries since
// the beginning, got of them are of this page, and there says that the one before them still was.
func (s *stream) lost(info *redis.XInfoStream, id string, read int64, there bool, got int) string {
	counts := info.EntriesAdded > 0 || info.Length == 0 && info.LastGeneratedID == noID
	switch {
	case older(info.LastGeneratedID, id):
		return "the stream " + s.key + " was made anew"
	case counts && info.EntriesAdded-s.base < read:
		return "the stream " + s.key + " has forgotten entries that were there"
	case counts && info.EntriesAdded-s.base > read:
		return fmt.Sprintf("%d entries of the stream %s were trimmed or deleted before they were read", info.EntriesAdded-s.base-read, s.key)
	case !counts && !there && got > 0 && s.id != noID:
		return "the entry of the stream " + s.key + " that was read last is gone, and a server before 7.0 does not tell whether others went with it unread: keep more of it (MAXLEN)"
	}
	return ""
}

const noID = "0-0"

// page asks for the entries from id on, and for what the stream is, in one step. A stream that is not there is empty.
func (s *stream) page(ctx context.Context, id string, n int64) (*redis.XInfoStream, []redis.XMessage, error) {
	var info *redis.XInfoStreamCmd
	messages := redis.NewXMessageSliceCmd(ctx)
	err := s.redis.ask(ctx, s.key, func(c *redis.Client) error {
		_, err := c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			info = tx.XInfoStream(ctx, s.key)
			if n > 0 {
				messages = tx.XRangeN(ctx, s.key, id, "+", n)
			}
			return nil
		})
		return err
	})
	var said redis.Error
	if err != nil && !errors.As(err, &said) {
		return nil, nil, err
	}
	if err := info.Err(); err != nil {
		if strings.Contains(err.Error(), "no such key") {
			return &redis.XInfoStream{LastGeneratedID: noID}, nil, nil
		}
		return nil, nil, wrongType(err, s.key, "stream")
	}
	return info.Val(), messages.Val(), messages.Err()
}

func (s *stream) Last(ctx context.Context, n int) ([]Row, error) {
	var messages []redis.XMessage
	err := s.redis.ask(ctx, s.key, func(c *redis.Client) (err error) {
		messages, err = c.XRevRangeN(ctx, s.key, "+", "-", int64(n)).Result()
		return err
	})
	if err != nil {
		return nil, wrongType(err, s.key, "stream")
	}
	rows := make([]Row, len(messages))
	for i, m := range messages {
		rows[len(rows)-1-i] = rowOf(m)
	}
	return rows, nil
}

func rowOf(m redis.XMessage) Row {
	row := Row{}
	for name, v := range m.Values {
		row[name], _ = v.(string)
	}
	return row
}

// older reports that id a of a stream comes before b.
func older(a, b string) bool {
	ah, al := idOf(a)
	bh, bl := idOf(b)
	return ah < bh || ah == bh && al < bl
}

func idOf(id string) (high, low uint64) {
	h, l, _ := strings.Cut(id, "-")
	high, _ = strconv.ParseUint(h, 10, 64)
	low, _ = strconv.ParseUint(l, 10, 64)
	return high, low
}
