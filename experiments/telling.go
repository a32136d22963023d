package experiments

import (
	"fmt"
	"strings"
)

// Telling says of a fault what it does, how that is confirmed by observation, and how it is undone: a sentence each.
type Telling struct {
	Does, Confirmed, Undone string
}

// Tell is what a fault of e does, for whoever plans it.
func (e *Experiment) Tell(f *Fault) Telling {
	switch {
	case f.Kill != nil && e.Kubernetes != nil:
		return podKillTelling(f.Kill)
	case f.Net():
		t := netTelling(f)
		t.Undone = "the toxics of this fault are removed and the proxy is read back; where that hangs, the proxy is disabled and made again"
		if f.Down != nil {
			t.Undone = "the proxy is enabled again and read back; where that hangs, it is made again"
		}
		return t
	case f.Failures() != nil:
		return failuresTelling(f)
	case f.Store != nil:
		return storeTelling(f.Store)
	case f.DeleteKey != nil && f.DeleteKey.To != "":
		return Telling{"the key of the held lock gets a token that nobody knows", "the key is read back and carries that token",
			"the key is removed if it still carries that token, which is read back"}
	case f.DeleteKey != nil:
		return Telling{"the key of the held lock is deleted under its holder", "the key is read back: it is gone, or another's",
			"nothing is put back: the holder's next renewal is told that the lock is lost"}
	case f.Kill != nil:
		return Telling{"SIGKILL of the replica: every key that it holds is left to its TTL", "its exit status says SIGKILL, and it still held the lock then",
			"nothing to undo: the replica is replaced after system.restart"}
	case f.Pause != nil:
		return Telling{"SIGSTOP of the replica, as a long garbage collection", "all its threads stand still, the whole time", "SIGCONT; the process goes on, which is read back"}
	case f.Clock != nil:
		return Telling{fmt.Sprintf("the wall clock of the replica's lock core is off by %s", formatDuration(f.Clock.Offset)),
			"the replica reports its offset", "the replica is told to go by its own clock again, and ends that by itself when the time is up"}
	}
	return Telling{}
}

// podKillTelling: an API object that is gone proves no death, so each form says what does.
func podKillTelling(k *Kill) Telling {
	const (
		died   = "its container's status says terminated, or the stream of its log, opened before, ends; else the end stays open"
		undone = "nothing to undo: the pod's controller replaces it"
	)
	switch {
	case k.Form == FormGraceful:
		return Telling{"the pod is deleted with its own grace: SIGTERM, and SIGKILL when that is over; a holder that releases hands its lock over", died, undone}
	case k.Form == FormForceDelete:
		return Telling{"the pod is deleted with grace 0: the object goes at once, the process gets SIGTERM and may live on for 2s or more", died, undone}
	case len(k.Exec) > 0:
		return Telling{"a command in the pod's container ends the process: " + Redact(strings.Join(k.Exec, " ")), died, "nothing to undo: the kubelet starts the container again"}
	}
	return Telling{"the worker in the pod is told to die at once, without a word", died, "nothing to undo: the kubelet starts the container again"}
}

func netTelling(f *Fault) Telling {
	const slower = "a round trip through the proxy is measured before and during it, and the replica's own calls show it"
	way := func(s Stream) string {
		return map[Stream]string{StreamUp: "requests", StreamDown: "replies", StreamBoth: "requests and replies"}[s]
	}
	switch {
	case f.Latency != nil && f.Latency.Jitter > 0:
		return Telling{Does: fmt.Sprintf("%s are delayed by %s, give or take %s", way(f.Latency.Stream), formatDuration(f.Latency.Add), formatDuration(f.Latency.Jitter)), Confirmed: slower}
	case f.Latency != nil:
		return Telling{Does: fmt.Sprintf("%s are delayed by %s", way(f.Latency.Stream), formatDuration(f.Latency.Add)), Confirmed: slower}
	case f.Jitter != nil:
		return Telling{Does: fmt.Sprintf("%s are delayed by anything up to %s", way(f.Jitter.Stream), formatDuration(2*f.Jitter.By)), Confirmed: slower}
	case f.Bandwidth != nil:
		return Telling{Does: fmt.Sprintf("%s pass at no more than %d kB/s", way(f.Bandwidth.Stream), f.Bandwidth.Rate),
			Confirmed: "the time that some data takes through the proxy is measured before and during it, and the replica is connected through it"}
	case f.SlowClose != nil:
		return Telling{Does: fmt.Sprintf("connections stay open for %s after one side has closed them", formatDuration(f.SlowClose.Delay)),
			Confirmed: "the close of a connection through the proxy is measured before and during it, and the replica is connected through it"}
	case f.BlackHole != nil:
		return Telling{Does: "nothing gets through, and connections stay open", Confirmed: "a call through the proxy gets no answer, and the replica's own get none"}
	case f.Reset != nil:
		return Telling{Does: "connections are reset", Confirmed: "a connection through the proxy is reset, and the replica's own are"}
	}
	return Telling{Does: "nobody listens where the replica reaches the store", Confirmed: "a connection to the proxy is refused, and the replica's own are gone"}
}

func failuresTelling(f *Fault) Telling {
	b := f.Failures()
	operation := strings.TrimSuffix(f.Kind(), "_failures") + "s"
	if f.RenewFailures != nil {
		operation = "renewals"
	}
	does := map[FailMode]string{
		FailError: "are refused at once, without effect", FailTimeout: "are never sent on and get no answer",
		FailDelay: "are held back for " + formatDuration(b.Delay), FailLostReply: "take effect, and their answer is lost",
	}[b.Mode]
	if b.Share > 0 && b.Share < 1 {
		operation = fmt.Sprintf("%.3g%% of the %s", 100*b.Share, operation)
	}
	if b.Lock != "" {
		operation += " of lock " + b.Lock
	}
	if b.Count > 0 {
		does += fmt.Sprintf(", %d in all", b.Count)
	}
	t := Telling{operation + " " + does, "each is counted where it is made to fail; fewer than wanted, and the shot is void",
		"the replica disarms itself when the burst is over, and is told to"}
	if b.Via == ViaProxy {
		t.Undone = "the proxy that reads the replicas' commands is told to let everything through"
	}
	return t
}

func storeTelling(s *StoreFault) Telling {
	data := "its data is gone"
	if s.Keep {
		data = "its data survives"
	}
	switch s.Do {
	case StorePause:
		return Telling{"CLIENT PAUSE: no write is answered", "a write gets no answer", "CLIENT UNPAUSE; a write is answered; the pause also ends by itself"}
	case StoreFreeze:
		return Telling{"SIGSTOP of the server", "the system says that it is stopped", "SIGCONT; a call is answered"}
	case StoreRestart:
		return Telling{"the server is killed and started again; " + data, "it answers under another run id", "nothing to undo: it is ended with the run"}
	case StoreStop:
		return Telling{"the server is killed and stays away; " + data, "connections are refused", "it is started again and answers"}
	case StoreFlush:
		return Telling{"every key of the run is gone; of a server that the run started, FLUSHALL", "a key written before is gone", "nothing can be put back"}
	}
	lag := ""
	if s.Lag > 0 {
		lag = ", which has missed the last " + formatDuration(s.Lag) + ","
	}
	return Telling{"the primary is killed, and its replica" + lag + " becomes the primary", "the new one says that it is the primary, and answers", "nothing to undo: both servers are ended with the run"}
}

// Whom is whom the fault strikes, in a person's words.
func (f *Fault) Whom() string {
	switch a := f.Aim(); {
	case a.HolderOf != "":
		return "whoever holds " + a.HolderOf + " then"
	case a.Replica != "":
		return "replica " + a.Replica
	case a.Pods != "":
		return pickWords(f.Kill.Pick) + " of the pods with " + a.Pods
	case a.All:
		return "every replica"
	}
	return "the locks' store"
}

func pickWords(p PickPod) string {
	if p == PickOldest || p == PickNewest {
		return "the " + string(p)
	}
	return "any one"
}
