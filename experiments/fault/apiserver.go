package fault

import (
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// APIServer is what the API server of a cluster is to electors for a while: slow, read-only, away, or without one answer. It is made by the lockdrill proxy
// that they are pointed at, for all of them or for one.
type APIServer struct {
	Aim
	Do    APIServerDo   `rule:"required,words=slow|refuse_writes|lose_reply|away"` // slow: what electors send arrives late; refuse_writes: reads are answered, writes with 503; lose_reply: one write is carried out, and its answer does not come; away: connections are reset
	Delay time.Duration `rule:"positive" scale:"no"`                               // of slow: by how much what electors send is late
	Of    lockcore.Op   `rule:"words=acquire|renew|release"`                       // of lose_reply: the write whose answer is lost
}

// APIServerDo is what befalls the API server.
type APIServerDo string

const (
	SlowAPI  APIServerDo = "slow"
	ReadOnly APIServerDo = "refuse_writes"
	LostAPI  APIServerDo = "lose_reply"
	AwayAPI  APIServerDo = "away"
)

func newAPIServer(form, _ string) Spec { return &APIServer{Do: APIServerDo(form)} }

func (*APIServer) Kind() string   { return "api_server" }
func (s *APIServer) Form() string { return string(s.Do) }

func (s *APIServer) Magnitude() string {
	if s.Delay == 0 {
		return string(s.Of)
	}
	return "+" + figures.Spell(s.Delay)
}

func (s *APIServer) Traits() Traits {
	return Traits{Class: ClassPause, Noun: "fault", Called: "API server", GoesOn: "the API server would be like that until the fault is ended",
		OnTheWay: true, ByAPIProxy: true, Cuts: s.Do == AwayAPI, Holds: s.Delay}
}

func (*APIServer) Barred(a Around) string {
	switch {
	case !a.Pods || !a.Observed:
		return "is for elections of somebody's own in pods: lockdrill's workers ask nothing of the API server"
	case !a.APIProxy:
		return "needs the lockdrill proxy that the electors are pointed at in place of their API server: kubernetes: {api_proxy: \"http://127.0.0.1:6381\"}"
	}
	return ""
}

func (s *APIServer) Check(c Checker) {
	s.check(c, s.Whom(), true)
	for _, l := range c.Locks() {
		if l.Name == s.HolderOf && !l.Lease {
			c.Check("holder_of", "lock %s is a key of a Redis: its holder does not need the API server", l.Name)
		}
	}
	switch {
	case s.Do == SlowAPI && s.Delay == 0:
		c.Check("delay", "missing: by how much is what the electors send late?")
	case s.Do != "" && s.Do != SlowAPI && s.Delay > 0:
		c.Check("delay", "is for do: slow")
	}
	switch {
	case s.Do == LostAPI && s.Of == "":
		c.Check("of", "missing: the answer to which write is lost? One of acquire, renew, release")
	case s.Do != "" && s.Do != LostAPI && s.Of != "":
		c.Check("of", "is for do: lose_reply")
	case s.Of == lockcore.OpAcquire && s.HolderOf != "":
		c.Check("of", "the holder has acquired its Lease already: say replica, or all: true")
	}
}

func (s *APIServer) Describe(bool) Description {
	does := map[APIServerDo]string{
		SlowAPI:  "what the electors send to the API server arrives " + figures.Spell(s.Delay) + " late",
		ReadOnly: "the API server answers the electors' reads, and their writes with 503",
		LostAPI:  "the API server carries out one write of an elector (" + string(s.Of) + "), and its answer does not come until the fault is over; then the request is cut off",
		AwayAPI:  "the electors' connections to the API server are reset, and new ones too",
	}[s.Do]
	return Description{does + ", by the lockdrill proxy that they are pointed at", "the proxy counts what it did to connections from the victims' addresses: none makes the shot void",
		"the proxy ends the fault, and says so; it also ends by itself"}
}

func (s *APIServer) Action(shot Shot) string {
	switch s.Do {
	case SlowAPI:
		return Words("API server slow", shot.Configured) + shot.on() + shot.lasting()
	case ReadOnly:
		return "API server refuses writes" + shot.on() + shot.lasting()
	case LostAPI:
		return Words("API server loses the answer to", shot.Configured) + shot.on()
	}
	return "API server away" + shot.on() + shot.lasting()
}

func (*APIServer) Measured(Measured) string { return "" }
