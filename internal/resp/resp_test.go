package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// frames cuts a stream at the places given, scans the pieces one after the other, and returns the frames found.
func frames(s Scanner, stream []byte, cut func(left int) int) (out []string, err error) {
	var frame []byte
	for len(stream) > 0 {
		piece := stream[:cut(len(stream))]
		stream = stream[len(piece):]
		for len(piece) > 0 {
			n, done, err := s.Scan(piece)
			frame = append(frame, piece[:n]...)
			piece = piece[n:]
			if err != nil {
				return out, err
			}
			if done {
				out = append(out, string(frame))
				frame = nil
			}
		}
	}
	if len(frame) > 0 || s.Within() {
		return out, fmt.Errorf("the stream ended within %q", frame)
	}
	return out, nil
}

func TestRepliesOfEveryTypeAreOneFrame(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", "-ERR no\r\n", ":-12\r\n", "$0\r\n\r\n", "$-1\r\n", "$5\r\na\r\nb\n\r\n", "*0\r\n", "*-1\r\n",
		"*2\r\n*1\r\n$1\r\nx\r\n:7\r\n", "_\r\n", "#t\r\n", ",1.5e3\r\n", ",inf\r\n", "(123456789012345678901234567890\r\n",
		"!5\r\nERR x\r\n", "=7\r\ntxt:abc\r\n", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n%0\r\n", "~2\r\n:1\r\n:2\r\n",
		">3\r\n+message\r\n+c\r\n$2\r\nhi\r\n", "|1\r\n+ttl\r\n:5\r\n*1\r\n+x\r\n",
		"*1\r\n|1\r\n+a\r\n:1\r\n$1\r\nx\r\n", strings.Repeat("*1\r\n", 5000) + ":1\r\n",
		"$100000\r\n" + strings.Repeat("\r\n", 50000) + "\r\n",
	} {
		got, err := frames(Scanner{}, []byte(reply+reply), func(left int) int { return left })
		if err != nil || len(got) != 2 || got[0] != reply || got[1] != reply {
			t.Errorf("%.60q: %d frames, %v", reply, len(got), err)
		}
		if got, err = frames(Scanner{}, []byte(reply+reply), func(int) int { return 1 }); err != nil || len(got) != 2 {
			t.Errorf("%.60q byte by byte: %d frames, %v", reply, len(got), err)
		}
	}
}

func TestWhatIsNoRESPIsRefused(t *testing.T) {
	for _, c := range []struct {
		commands bool
		stream   string
	}{
		{false, "hello\r\n"}, {false, "$x\r\n"}, {false, "$5\n"}, {false, "$?\r\n"}, {false, "*99999999999999999999999\r\n"},
		{false, "$9999999999999999\r\n"}, {false, "*4000000000\r\n"}, {false, "%" + strings.Repeat("1", 40)},
		{true, "*1\r\n:1\r\n"}, {true, "*1\r\n$-1\r\n"}, {true, "*1\r\n*1\r\n$1\r\nx\r\n"}, {true, "*x\r\n"},
	} {
		if got, err := frames(Scanner{Commands: c.commands}, []byte(c.stream), func(left int) int { return left }); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.60q: %q, %v", c.stream, got, err)
		}
	}
}

func TestArgs(t *testing.T) {
	for _, c := range []struct {
		frame string
		want  string
	}{
		{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n", "SET|k|a\r\nb"},
		{"*1\r\n$0\r\n\r\n", ""}, {"*0\r\n", "none"}, {"*-1\r\n", "none"}, {"\r\n", "none"}, {"PING\r\n", "PING"},
		{"  set  k \tv\n", "set|k|v"}, {"SET \"a b\" 'it\\'s'\r\n", "SET|a b|it's"},
	} {
		args, err := Args(nil, []byte(c.frame))
		got := string(bytes.Join(args, []byte("|")))
		if len(args) == 0 {
			got = "none"
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.frame, got, err, c.want)
		}
	}
	for _, bad := range []string{"*2\r\n$1\r\nx\r\n", "*1\r\n$9\r\nx\r\n", "SET \"a\r\n"} {
		if _, err := Args(nil, []byte(bad)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// value writes a random reply.
func value(rng *rand.Rand, depth int) string {
	kinds := "+-:$_#,(!="
	if depth > 0 {
		kinds += "*~%>|"
	}
	body := strings.Repeat("\r\n$-1*", rng.IntN(4))
	many := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(value(rng, depth-1))
		}
		return b.String()
	}
	n := rng.IntN(4)
	switch k := kinds[rng.IntN(len(kinds))]; k {
	case '$', '!', '=':
		return fmt.Sprintf("%c%d\r\n%s\r\n", k, len(body), body)
	case '*', '~', '>':
		return fmt.Sprintf("%c%d\r\n", k, n) + many(n)
	case '%':
		return fmt.Sprintf("%%%d\r\n", n) + many(2*n)
	case '|':
		return fmt.Sprintf("|%d\r\n", n) + many(2*n) + value(rng, depth-1)
	default:
		return fmt.Sprintf("%c%d\r\n", k, rng.Int64())
	}
}

// However a stream is cut, the same frames are found.
func TestRandomSplits(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		commands := rng.IntN(2) == 0
		var want []string
		for range 1 + rng.IntN(6) {
			switch {
			case !commands:
				want = append(want, value(rng, 3))
			case rng.IntN(4) == 0:
				want = append(want, "PING "+strings.Repeat("x$*", rng.IntN(20))+"\r\n")
			default:
				n := rng.IntN(4)
				c := fmt.Sprintf("*%d\r\n", n)
				for range n {
					word := strings.Repeat("\r\n*", rng.IntN(5))
					c += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
				}
				want = append(want, c)
			}
		}
		got, err := frames(Scanner{Commands: commands}, []byte(strings.Join(want, "")), func(left int) int { return 1 + rng.IntN(min(left, 20)) })
		if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("seed %d: %q scanned as %q: %v", seed, want, got, err)
		}
	}
}

// Whatever comes: no panic, no endless loop, and the same answer in one piece and byte by byte.
func FuzzScan(f *testing.F) {
	for _, s := range []string{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "PING\r\n", "%1\r\n+a\r\n:1\r\n", "|1\r\n+a\r\n:1\r\n$-1\r\n", "$5\r\nab"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, stream string, commands bool) {
		whole, err := frames(Scanner{Commands: commands}, []byte(stream), func(left int) int { return left })
		bytewise, err2 := frames(Scanner{Commands: commands}, []byte(stream), func(int) int { return 1 })
		if strings.Join(whole, "|") != strings.Join(bytewise, "|") || (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %q (%v) and %q (%v)", stream, whole, err, bytewise, err2)
		}
		for _, frame := range whole {
			if _, err := Args(nil, []byte(frame)); commands && err != nil && frame[0] == '*' {
				t.Fatalf("%q was found to be a command: %v", frame, err)
			}
		}
	})
}
