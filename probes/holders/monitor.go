package holders

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/endpoint"
)

// Cost is what a window of MONITOR came to.
type Cost struct {
	Began    int64
	Took     time.Duration
	Commands int     // that the server told
	CPU      float64 // share of a processor that the server used meanwhile; -1 = not known
	Cut      bool    // it ended since the server told too many
	Err      error
}

// writes are the commands that acquire or renew, where they carry the token. Others, such as a message about it, prove nothing.
var writes = map[string]bool{
	"SET": true, "SETNX": true, "SETEX": true, "PSETEX": true, "GETSET": true, "EVAL": true, "EVALSHA": true, "FCALL": true,
	"HSET": true, "HSETNX": true, "HMSET": true,
}

// maxTold is the longest command that is looked at.
const maxTold = 1 << 20

// monitor watches all commands until each of these tokens was carried by a replica's connection, or the window is over. Meanwhile it takes
// what is said of any other that is wanted: a lock may be gone by the next window.
func (c *Client) monitor(ctx context.Context, all []*want) (cost Cost) {
	cost.Began, cost.CPU = c.o.Clock(), -1
	ctx, cancel := context.WithTimeout(ctx, c.o.Window)
	defer cancel()
	before, known := c.cpu(ctx)
	defer func() {
		cost.Took = time.Duration(c.o.Clock() - cost.Began)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if after, ok := c.cpu(ctx); ok && known && cost.Took > 0 {
			cost.CPU = (after - before) / cost.Took.Seconds()
		}
	}()
	conn, in, err := c.dial(ctx)
	if err != nil {
		cost.Err = fmt.Errorf("MONITOR: %w", err)
		return cost
	}
	defer conn.Close() // the server ends the window with the connection
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	for left := len(all); left > 0; {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			cost.Err = errors.New("MONITOR: the server told a command that is too long")
			return cost
		case errors.Is(err, os.ErrDeadlineExceeded):
			return cost
		case err != nil:
			cost.Err = fmt.Errorf("MONITOR: %w", err)
			return cost
		}
		if cost.Commands++; cost.Commands > c.o.Commands {
			cost.Cut = true
			return cost
		}
		addr, ok := caller(line, c.o.Redis.DB)
		if !ok {
			continue
		}
		for _, w := range c.lacking(func(w *want) bool { return w.in(line) }) {
			if c.took(ctx, w, addr) && slices.Contains(all, w) {
				left--
			}
		}
	}
	return cost
}

// in reports a command that has w's key and its token.
func (w *want) in(line []byte) bool {
	return bytes.Contains(line, w.key) && bytes.Contains(line, w.arg)
}

// caller is the connection whose command acquires or renews something. What a script does comes from nobody: its caller's command stands
// beside it.
func caller(line []byte, db int) (addr string, ok bool) {
	_, rest, ok := bytes.Cut(line, []byte(" ["))
	if !ok {
		return "", false
	}
	from, words, ok := bytes.Cut(rest, []byte(`] "`))
	if !ok {
		return "", false
	}
	where, who, ok := bytes.Cut(from, []byte(" "))
	name, _, _ := bytes.Cut(words, []byte(`"`))
	if !ok || string(where) != strconv.Itoa(db) || string(who) == "lua" || !writes[strings.ToUpper(string(name))] {
		return "", false
	}
	return string(who), true
}

// quoted is an argument as MONITOR writes it, with the blank before it: quotes within it are escaped, so it is found nowhere else.
func quoted(arg string) []byte {
	b := []byte(` "`)
	for i := range len(arg) {
		switch ch := arg[i]; {
		case ch == '\\' || ch == '"':
			b = append(b, '\\', ch)
		case strings.IndexByte("\n\r\t\a\b", ch) >= 0:
			b = append(b, '\\', "nrtab"[strings.IndexByte("\n\r\t\a\b", ch)])
		case ch < 0x20 || ch > 0x7e:
			b = fmt.Appendf(b, `\x%02x`, ch)
		default:
			b = append(b, ch)
		}
	}
	return append(b, '"')
}

// dial opens a connection that the server tells all commands.
func (c *Client) dial(ctx context.Context) (net.Conn, *bufio.Reader, error) {
	o := c.o.Redis
	conn, err := endpoint.DialPlain(ctx, o.Addr, o.TLSConfig)
	if err != nil {
		return nil, nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(until)
	}
	in := bufio.NewReaderSize(conn, maxTold)
	err = endpoint.Access{User: o.Username, Password: o.Password}.Login(conn, in, 0, []string{"MONITOR"})
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, in, nil
}

// cpu is the processor time that the server has used, in seconds.
func (c *Client) cpu(ctx context.Context) (used float64, ok bool) {
	info, err := c.admin.InfoMap(ctx, "cpu").Result()
	if err != nil {
		return 0, false
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		s, err := strconv.ParseFloat(info["CPU"][name], 64)
		used, ok = used+s, err == nil
	}
	return used, ok
}
