package redis

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A right that the run will need and has not is known before the first write, with the command, the key and the rule that gives it.
func TestRightsAreKnownBeforeTheFirstWrite(t *testing.T) {
	addr := redistest.Start(t)
	owner := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = owner.Close() })
	t.Setenv("RIGHTS_USER", "drill")
	t.Setenv("RIGHTS_PASSWORD", secret)
	r := experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://" + addr + "/0", UsernameEnv: "RIGHTS_USER", PasswordEnv: "RIGHTS_PASSWORD"}
	for _, c := range []struct{ rules, want string }{
		{"~f:* ~lockdrill:* +@all", ""},
		{"~f:* ~lockdrill:* -@all +info +ping +time +scan +del +unlink +exists +eval +eval_ro +get +set +pttl", ""},
		{"%R~f:* ~lockdrill:* +@all", ""},
		{"~f:* ~lockdrill:* +@all -info", "may not use INFO, which the run needs: let the user have +info (ACL SETUSER)"},
		{"~f:* ~lockdrill:* +@all -ping", "+ping (ACL"},
		{"~f:* ~lockdrill:* +@all -time", "+time (ACL"},
		{"~f:* ~lockdrill:* +@all -scan", "+scan (ACL"},
		{"~f:* ~lockdrill:* +@all -unlink", "+unlink ~lockdrill:* (ACL"},
		{"~f:* ~lockdrill:* +@all -del", "+del ~lockdrill:* (ACL"},
		{"~f:* ~lockdrill:* +@all -exists", "+exists ~lockdrill:* (ACL"},
		{"~f:* ~lockdrill:* +@all -set", "+set ~lockdrill:* (ACL"},
		{"~f:* ~lockdrill:* +@all -@scripting", "+eval ~lockdrill:* (ACL"},
		{"~f:* ~lockdrill:* +@all -pttl", "may not use PTTL on f:leader, which the run needs: let the user have +pttl ~f:leader (ACL SETUSER)"},
		{"~lockdrill:* +@all", "may not use GET on f:leader"},
		{"~f:* ~lockdrill:2* +@all", "may not use GET on lockdrill:run"},
	} {
		words := []any{"acl", "setuser", "drill", "reset", "on", ">" + secret}
		for rule := range strings.FieldsSeq(c.rules) {
			words = append(words, rule)
		}
		testkit.Must(t, owner.Do(t.Context(), words...).Err())
		for _, asked := range []bool{false, true} {
			err := Rights(t.Context(), r, []string{"f:leader"}, asked)
			if asked && errors.Is(err, ErrNotTold) && strings.Contains(c.rules, "-@all") { // who has no ACL is told nothing
				continue
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, asked %v: %v, want %q", c.rules, asked, err, c.want)
			}
		}
	}
	if keys, err := owner.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("something was written: %v, %v", keys, err)
	}
	asOwner := experiments.Redis{Mode: experiments.RedisExternal, URL: r.URL}
	for _, c := range []struct {
		words []any
		want  string
	}{
		{[]any{"hset", "h", "owner", "1"}, ""},
		{[]any{"hset", "h", 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16, 16}, "key h is a hash of 17 fields"},
		{[]any{"set", "s", "token"}, ""},
		{[]any{"rpush", "l", "token"}, "key l is a list, which is no lock"},
	} {
		testkit.Must(t, owner.Do(t.Context(), c.words...).Err())
		err := Rights(t.Context(), asOwner, []string{c.words[1].(string)}, true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.words, err, c.want)
		}
	}
	testkit.Must(t, owner.ConfigSet(t.Context(), "maxmemory", "1").Err())
	open := experiments.Redis{Mode: experiments.RedisExternal, URL: r.URL}
	if err := Rights(t.Context(), open, nil, false); err == nil || !strings.Contains(err.Error(), "takes no writes now (SET on lockdrill:") {
		t.Errorf("a full server: %v", err)
	}
	replica := experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://" + redistest.StartReplica(t, addr) + "/0"}
	for _, asked := range []bool{false, true} {
		if err := Rights(t.Context(), replica, nil, asked); err == nil || !strings.Contains(err.Error(), "it is a replica and takes no writes") {
			t.Errorf("a replica, asked %v: %v", asked, err)
		}
	}
}

// Sentinels that know no primary of the name are told so: that is not a server without the key.
func TestAnUnknownPrimaryIsNoAbsentKey(t *testing.T) {
	sentinel, _, _ := redistest.StartSentinel(t)
	r := experiments.Redis{Mode: experiments.RedisExternal, Sentinel: &experiments.Sentinel{Master: "nobody", URLs: []string{"redis://" + sentinel}}}
	if _, said, err := Environment(t.Context(), r); err == nil || said || !strings.Contains(err.Error(), `know no primary "nobody"`) {
		t.Errorf("%v, %v", said, err)
	}
	if err := Taken(t.Context(), r); err == nil || !strings.Contains(err.Error(), `know no primary "nobody"`) {
		t.Errorf("whether another run has it: %v", err)
	}
	c, err := Reach(r)
	testkit.Must(t, err)
	defer func() { _ = c.Close() }()
	if err := c.Get(t.Context(), "lock").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("a key: %v", err)
	}
}

// Sentinels have a user and a password of their own, which the server they name does not take, and the other way round.
func TestSentinelsHaveCredentialsOfTheirOwn(t *testing.T) {
	sentinel, _, _ := redistest.StartSentinelAs(t, "watcher", "of-the-sentinels")
	t.Setenv("SENTINEL_USER", "watcher")
	t.Setenv("SENTINEL_PASSWORD", "of-the-sentinels")
	t.Setenv("SENTINEL_WRONG", "wrong-one")
	for _, c := range []struct{ user, password, want string }{
		{"SENTINEL_USER", "SENTINEL_PASSWORD", ""},
		{"SENTINEL_USER", "SENTINEL_WRONG", "those of redis.sentinel are for the Sentinels"},
		{"", "", "those of redis.sentinel are for the Sentinels"},
		{"", "SENTINEL_NONE", "the environment variable SENTINEL_NONE, which redis.sentinel.password_env names, is not set"},
	} {
		r := experiments.Redis{Mode: experiments.RedisExternal, Sentinel: &experiments.Sentinel{Master: redistest.SentinelMaster,
			URLs: []string{"redis://" + sentinel}, UsernameEnv: c.user, PasswordEnv: c.password}}
		_, _, err := Environment(t.Context(), r)
		if err != nil && (strings.Contains(err.Error(), "wrong-one") || strings.Contains(err.Error(), "of-the-sentinels")) {
			t.Errorf("%v: a secret is told: %v", c, err)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Why a server cannot be asked is told with the field that says otherwise.
func TestWhyAServerCannotBeAskedNamesTheField(t *testing.T) {
	secure, ca, _ := redistest.StartTLS(t)
	plain := redistest.Start(t)
	closed := redistest.Start(t)
	asks, asksCA, own := redistest.StartTLS(t)
	cert, key := redistest.Client(asksCA)
	socket := filepath.Join(t.TempDir(), "redis.sock")
	redistest.Start(t, "--unixsocket", socket)
	for _, set := range [][3]string{{closed, "requirepass", secret}, {own, "tls-auth-clients", "yes"}} {
		owner := redis.NewClient(&redis.Options{Addr: set[0], DisableIdentity: true})
		t.Cleanup(func() { _ = owner.Close() })
		testkit.Must(t, owner.ConfigSet(t.Context(), set[1], set[2]).Err())
	}
	t.Setenv("RIGHTS_WRONG", "wrong")
	for _, c := range []struct {
		name string
		at   experiments.Redis
		want string
	}{
		{"TLS, and its authority is not named", experiments.Redis{URL: "rediss://" + secure}, "ca names the file of the authority"},
		{"TLS, and it is asked without", experiments.Redis{URL: "redis://" + secure}, "does it speak TLS only? Then the address begins with rediss://"},
		{"no TLS, and it is asked with", experiments.Redis{URL: "rediss://" + plain, CA: ca}, "does it speak TLS? Without it the address begins with redis://"},
		{"TLS, and it asks who connects", experiments.Redis{URL: "rediss://" + asks, CA: asksCA}, "the server wants a certificate of its clients: cert and key name the PEM files"},
		{"TLS, and it is shown who connects", experiments.Redis{URL: "rediss://" + asks, CA: asksCA, Cert: cert, Key: key}, ""},
		{"TLS, and the key is another's", experiments.Redis{URL: "rediss://" + asks, CA: asksCA, Cert: cert, Key: asksCA}, "redis.cert cannot be used as it is set: " + cert + " with the key of " + asksCA},
		{"a socket", experiments.Redis{URL: "unix://" + socket}, ""},
		{"a database behind a socket", experiments.Redis{URL: "unix://" + socket + "?db=3"}, ""},
		{"a socket of nobody", experiments.Redis{URL: "unix://" + socket + "s"}, "unix:" + socket + "s"},
		{"no password", experiments.Redis{URL: "redis://" + closed}, "the server wants a password: password_env names the variable"},
		{"another password", experiments.Redis{URL: "redis://" + closed, PasswordEnv: "RIGHTS_WRONG"}, "does not take the user and password that username_env and password_env name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.at.Mode = experiments.RedisExternal
			if _, said, err := Environment(t.Context(), c.at); (err == nil) != (c.want == "") || said || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
