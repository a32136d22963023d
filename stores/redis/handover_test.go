package redis

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
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
