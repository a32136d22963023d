package redis

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/stores"
)

// Whether the Sentinels would fail over for the run's user is known before the run, by trying and by asking alike, and nothing is failed over by it.
func TestTheRightToFailOverIsKnownBefore(t *testing.T) {
	redistest.Need(t)
	sentinel, primary, _ := redistest.StartSentinelAs(t, "me", "hush")
	t.Setenv("S_USER", "me")
	t.Setenv("S_PASSWORD", "hush")
	r := experiments.Redis{Mode: experiments.RedisExternal, Allow: []string{"failover"},
		Sentinel: &experiments.Sentinel{Master: redistest.SentinelMaster, URLs: []string{"redis://" + sentinel}, UsernameEnv: "S_USER", PasswordEnv: "S_PASSWORD"}}
	own := redis.NewClient(&redis.Options{Addr: sentinel, Username: "me", Password: "hush", Protocol: 2, DisableIdentity: true})
	defer own.Close()
	for _, asked := range []bool{false, true} {
		if err := Rights(t.Context(), r, nil, asked); err != nil {
			t.Errorf("asked %t: %v", asked, err)
		}
	}
	if err := own.Do(t.Context(), "acl", "setuser", "me", "-sentinel|failover").Err(); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []bool{false, true} {
		if err := Rights(t.Context(), r, nil, asked); err == nil || !strings.Contains(err.Error(), "let the user have +sentinel|failover") {
			t.Errorf("asked %t: %v", asked, err)
		}
	}
	r.Allow = nil
	if err := Rights(t.Context(), r, nil, false); err != nil {
		t.Errorf("a run that fails nothing over does not need it: %v", err)
	}
	if at, err := own.Do(t.Context(), "sentinel", "get-master-addr-by-name", redistest.SentinelMaster).StringSlice(); err != nil || strings.Join(at, ":") != primary {
		t.Errorf("the primary is %v, %v", at, err)
	}
}

// The server that the file names first dies while a run is there: the run and whoever recovers it reach the cluster by its others. A password
// goes to those alone that the file names.
func TestAGuestOfAClusterWhoseServerDies(t *testing.T) {
	t.Run("open", func(t *testing.T) { serverOfClusterDies(t, 1, "", 3) })
	t.Run("password", func(t *testing.T) { serverOfClusterDies(t, 2, "CLUSTER_PASSWORD", 1) })
}

// serverOfClusterDies does so where the file names so many servers, and the record so many others.
func serverOfClusterDies(t *testing.T, named int, variable string, others int) {
	addrs := redistest.StartCluster(t)
	all := append(slices.Clone(addrs), redistest.FollowInCluster(t, addrs, addrs[0]))
	first := redistest.Dial(t, addrs[0])
	if variable != "" {
		t.Setenv(variable, secret)
		for _, option := range []string{"masterauth", "requirepass"} {
			for _, addr := range all {
				c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
				if err := c.ConfigSet(t.Context(), option, secret).Err(); err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
			}
		}
		first = redis.NewClient(&redis.Options{Addr: addrs[0], Password: secret, DisableIdentity: true})
		defer first.Close()
	}
	path := filepath.Join(t.TempDir(), undo.File)
	j, err := undo.Create(path, undo.Header{Run: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := openExternal(t.Context(), experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://" + strings.Join(addrs[:named], ",redis://"), PasswordEnv: variable, Cluster: true},
		&stores.Ground{Run: "r1", Folder: "/r1", Prefix: "lockdrill:r1:", Own: stores.Own{Journal: j}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := undo.Read(path)
	if err != nil || len(c.Entries) != 1 || len(c.Entries[0].Record.Store.Addrs) < others {
		t.Fatalf("the record does not name the servers: %+v, %v", c.Entries, err)
	}
	_ = first.ShutdownNoSave(t.Context()).Err()
	left := func() error { return leave(t.Context(), c.Entries[0].Record) }
	for end := time.Now().Add(time.Minute); left() != nil; {
		if time.Now().After(end) {
			t.Fatalf("by its record: %v", left())
		}
	}
	for end := time.Now().Add(20 * time.Second); ; {
		if err = s.Close(t.Context()); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("by the run itself: %v", err)
		}
	}
}
