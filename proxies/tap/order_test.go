package tap

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/resp"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// wordy is a server that answers each command by its second word: with values of many kinds, some after something pushed, and in
// pieces of any size.
func wordy(t *testing.T, seed uint64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		rng := rand.New(rand.NewPCG(seed, 1))
		scan, frame, buf := resp.Scanner{Commands: true}, []byte{}, make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			var out []byte
			for b := buf[:n]; len(b) > 0; {
				took, done, bad := scan.Scan(b)
				frame, b = append(frame, b[:took]...), b[took:]
				if bad != nil {
					return
				}
				if done {
					args, _ := resp.Args(nil, frame)
					out = append(out, reply(string(args[1]))...)
					frame = frame[:0]
				}
			}
			for len(out) > 0 {
				piece := out[:1+rng.IntN(len(out))]
				if _, err := conn.Write(piece); err != nil {
					return
				}
				out = out[len(piece):]
			}
			if err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

// reply is what wordy answers to a word, which is a number.
func reply(word string) string {
	switch word[len(word)-1] % 7 {
	case 0:
		return "+" + word + "\r\n"
	case 1:
		return fmt.Sprintf("*3\r\n:%s\r\n$-1\r\n%%1\r\n+a\r\n*0\r\n", word)
	case 2:
		return fmt.Sprintf(">2\r\n+news\r\n:1\r\n$%d\r\n%s\r\n", len(word), word)
	case 3:
		return "_\r\n"
	case 4:
		return fmt.Sprintf("|1\r\n+ttl\r\n:1\r\n~1\r\n:%s\r\n", word)
	case 5:
		body := strings.Repeat("\r\n"+word, 3000)
		return fmt.Sprintf("$%d\r\n%s\r\n", len(body), body)
	}
	return "-ERR " + word + "\r\n"
}

// However the streams are cut and whichever commands fail: what the client gets is each reply in its place, whole.
func TestRepliesKeepTheirPlaces(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, round))
		tap, seen, r1, _ := openTap(t, wordy(t, seed), Rules{})
		inject(t, tap, Fault{ID: "x", Op: burst.Release, Mode: burst.Error, Share: 0.5})
		var commands, want bytes.Buffer
		for i := range 400 {
			word := fmt.Sprint(i)
			if rng.IntN(2) == 0 {
				fmt.Fprintf(&commands, "*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n", len(word), word)
			} else {
				fmt.Fprintf(&commands, "ECHO %s\r\n", word)
			}
		}
		c := dial(t, r1)
		go func() {
			for commands.Len() > 0 {
				if _, err := c.Write(commands.Next(1 + rng.IntN(300))); err != nil {
					return
				}
			}
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(c.r)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		failed := map[string]bool{}
		for _, h := range seen.list() {
			failed[h.Key] = true
		}
		for i := range 400 {
			if word := fmt.Sprint(i); failed[word] {
				want.WriteString("-ERR made to fail by x (lockdrill)\r\n")
			} else {
				want.WriteString(reply(word))
			}
		}
		if len(failed) == 0 || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("seed %d, round %d: %d failed; got %d bytes, want %d; they differ from byte %d on", seed, round, len(failed), len(got), want.Len(), differ(got, want.Bytes()))
		}
	}
}

func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
