package resp

import (
	"errors"
	"testing"
)

func TestAReplyIsReadInItsOrder(t *testing.T) {
	r := NewReply([]byte("+OK\r\n*3\r\n:-12\r\n$5\r\na\r\nb\n\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n"))
	if s := string(r.Status()); s != "OK" {
		t.Errorf("status %q", s)
	}
	if n := r.Array(); n != 3 {
		t.Errorf("an array of %d", n)
	}
	if n := r.Int(); n != -12 {
		t.Errorf("number %d", n)
	}
	if s := string(r.Bulk()); s != "a\r\nb\n" {
		t.Errorf("string %q", s)
	}
	if s := r.Bulk(); s != nil {
		t.Errorf("a null string is %q", s)
	}
	if n, m := r.Array(), r.Array(); n != 0 || m != 0 {
		t.Errorf("a null array of %d, an empty one of %d", n, m)
	}
	if r.Done() {
		t.Error("done before the last value")
	}
	if s := r.Bulk(); s == nil || len(s) > 0 || !r.Done() {
		t.Errorf("an empty string is %q, error %v", s, r.Err())
	}
}

// What is not what was asked for is an error, of the server or of the wire, and nothing is read after it.
func TestAReplyOfAnotherKindIsAnError(t *testing.T) {
	for _, b := range []string{"", ":", ":1", ":1\n", ":x\r\n", "$4\r\nabc\r\n", "$9\r\n", "+OK\r\n"} {
		r := NewReply([]byte(b))
		if got := r.Bulk(); b != "" && b[0] == ':' {
			r = NewReply([]byte(b))
			r.Int()
		} else if got != nil {
			t.Errorf("%q: string %q", b, got)
		}
		if !errors.Is(r.Err(), ErrSyntax) {
			t.Errorf("%q: %v", b, r.Err())
		}
	}
	r := NewReply([]byte("-NOSCRIPT No matching script\r\n:1\r\n"))
	if r.Array(); r.Err() != ServerError("NOSCRIPT No matching script") {
		t.Errorf("error %v", r.Err())
	}
	if n := r.Int(); n != 0 || r.Done() {
		t.Errorf("%d was read after an error", n)
	}
}

func TestACommandIsWhatArgsReads(t *testing.T) {
	b := AppendWord(AppendWord(AppendHead(nil, 2), "GET"), []byte("a\r\nb"))
	args, err := Args(nil, b)
	if err != nil || len(args) != 2 || string(args[0]) != "GET" || string(args[1]) != "a\r\nb" {
		t.Errorf("%q is %q, %v", b, args, err)
	}
}
