package toxi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// server answers by method and path; what it has no answer for hangs until the test is over.
func server(t *testing.T, answers map[string]int) (*Client, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Method + " " + r.URL.Path
		mu.Lock()
		asked = append(asked, call)
		status := answers[call]
		mu.Unlock()
		if status == 0 {
			<-over
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"name":"` + strings.TrimPrefix(r.URL.Path, "/proxies/") + `"}`))
	}))
	t.Cleanup(func() { close(over); s.Close() })
	return New(s.URL), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

// To delete a proxy that hangs makes the server hang for all; its successor goes.
func TestAProxyThatHangsIsNotDeleted(t *testing.T) {
	c, asked := server(t, map[string]int{
		"GET /proxies/p~2": 200, "DELETE /proxies/p~2": 404, "GET /proxies/p~3": 404,
	})
	start := time.Now()
	err := c.Drop(t.Context(), "p")
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "restart the Toxiproxy") {
		t.Errorf("%v, want that it hangs, and the remedy", err)
	}
	if calls := asked(); slices.Contains(calls, "DELETE /proxies/p") || !slices.Contains(calls, "DELETE /proxies/p~2") {
		t.Errorf("asked %v", calls)
	}
	if took := time.Since(start); took > 20*CallWithin {
		t.Errorf("it took %s", took)
	}
}

func TestTheCurrentProxyIsTheLastSuccessor(t *testing.T) {
	c, asked := server(t, map[string]int{"GET /proxies/p~2": 200, "GET /proxies/p~3": 200, "GET /proxies/p~4": 404})
	if p, err := c.Current(t.Context(), "p"); err != nil || p.Name != "p~3" {
		t.Errorf("%+v, %v", p, err)
	}
	if slices.Contains(asked(), "GET /proxies/p") {
		t.Error("the one that hangs was asked")
	}
	c, _ = server(t, map[string]int{"GET /proxies/p": 200, "GET /proxies/p~2": 404})
	if p, err := c.Current(t.Context(), "p"); err != nil || p.Name != "p" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAnswersOfTheServer(t *testing.T) {
	c, _ := server(t, map[string]int{"DELETE /proxies/p/toxics/t": 404, "POST /proxies/p/toxics": 409, "POST /proxies/p": 500})
	if err := c.Remove(t.Context(), "p", "t"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := c.Add(t.Context(), "p", Toxic{}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if err := c.Enable(t.Context(), "p", true); err == nil || !strings.Contains(err.Error(), "500") {
		t.Error(err)
	}
}

func TestNamesOfSuccessors(t *testing.T) {
	for name, want := range map[string]string{"lockdrill-a-r1": "lockdrill-a-r1~2", "lockdrill-a-r1~2": "lockdrill-a-r1~3", "a~b-r1": "a~b-r1~2"} {
		if got := Next(name); got != want {
			t.Errorf("after %s comes %s, want %s", name, got, want)
		}
	}
}
