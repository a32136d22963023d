package work

import (
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// A tape is what happens to one piece of work and what it asks for each time, one step a line: "input -> todo". Inputs are words, as
// in read; a todo is written as in show.
var tapes = []struct {
	name string
	spec Spec
	tape string
}{
	{"a job", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:5s
		timer held            -> effect:done! write
		written held          -> exit:done release
		released              -> answer:done end`},
	{"another has the lock", job(lockcore.Critical), `
		start                 -> seek
		refusal busy          -> answer:busy end`},
	{"the store does not answer: the job is offered again", job(lockcore.Critical), `
		start                 -> seek
		refusal               -> end`},
	{"the job is finished already", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held finished -> exit:skipped release
		released              -> answer:skipped end`},
	{"a lock that does not look does it again", Spec{Policy: policy(lockcore.Critical), Hold: 5 * time.Second, NoLook: true}, `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held finished -> labour:5s`},
	{"the ledger knows a higher fence", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held refused  -> exit:refused release
		released              -> end`},
	{"the lock is lost in the midst of the work", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:5s
		lost over             -> halt
		timer over            -> nothing
		halted over           -> exit:fenced release
		lost over             -> nothing
		released              -> end`},
	{"the lock is lost while an effect is on its way", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		lost over             -> cancel halt
		written over          -> nothing
		halted over           -> exit:fenced release`},
	{"an effect takes its operation, though the lock is lost and it is not sent", job(lockcore.LegacyWarn), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:5s
		timer over            -> effect:done! halt
		halted over           -> exit:fenced release`},
	{"the clock says lost, the lock has not noticed: safe classes wait for it", job(lockcore.Standard), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written               -> labour:5s
		timer                 -> effect:done! pause:500ms
		lost over             -> halt
		halted over           -> exit:fenced release`},
	{"a lock that never notices", job(lockcore.Critical), `
		start                 -> seek
		granted               -> enter effect:begin pause:500ms
		timer                 -> exit:fenced release`},
	{"a legacy lock never looks at a clock", job(lockcore.LegacyCount), `
		start                 -> seek
		granted               -> enter effect:begin write
		written               -> labour:5s
		timer                 -> effect:done! write
		written               -> exit:done release`},
	{"replies are lost: the same effect again, and then its fate is read", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:5s
		timer held            -> effect:done! write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> look
		read held applied     -> exit:done release
		released              -> answer:done end`},
	{"its fate is not known", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:5s
		timer held            -> effect:done! write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> look
		read held             -> exit:error release
		released              -> end`},
	{"a begin without an answer is no leave to work", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> exit:error release
		released              -> end`},
	{"the lock is lost between two tries", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		written held unknown  -> pause:50ms
		lost over             -> halt
		halted over           -> exit:fenced release`},
	{"the replica stops while it seeks", job(lockcore.Critical), `
		start                 -> seek
		quit                  -> giveup
		refusal               -> end`},
	{"the replica stops: the work halts before the lock is given back", job(lockcore.Critical), `
		start                 -> seek
		granted held          -> enter effect:begin write
		quit held             -> nothing
		written held          -> halt
		halted held           -> exit:stopped release
		released              -> end`},
	{"wrong on purpose: no begin", Spec{Policy: policy(lockcore.Critical), Hold: 5 * time.Second, Wrong: Wrong{NoBegin: true}}, `
		start                 -> seek
		granted held          -> enter labour:5s
		timer held            -> effect:done! write`},

	{"a loop that renews keeps its key", loop(lockcore.LoopRenewed), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> effect:tick write
		written held          -> labour:2s
		timer@7s held         -> exit:done rest:15s
		timer@15s held        -> enter effect:tick write
		written held          -> labour:2s
		timer@17s held        -> exit:done rest:25s
		quit                  -> release
		released              -> end`},
	{"a follower asks at every poll", loop(lockcore.LoopRenewed), `
		start                 -> rest:5s
		timer@5s              -> seek
		refusal busy          -> rest:15s
		timer@15s             -> seek
		refusal               -> rest:25s
		quit                  -> end`},
	{"a tick longer than the poll: none are made up for", loop(lockcore.LoopRenewed), `
		start                 -> rest:5s
		timer@36s             -> seek
		refusal busy          -> rest:36s
		timer@36s             -> seek`},
	{"a loop that leaves its key to the TTL", loop(lockcore.LoopTTLHold), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> effect:tick write
		written held          -> labour:2s
		timer@7s held         -> exit:done leave rest:15s
		timer@15s             -> seek
		granted held          -> enter effect:begin write`},
	{"a loop that writes after its work", loopAfter(lockcore.Critical), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:2s
		timer@7s held         -> effect:tick write
		written held          -> exit:done rest:15s
		timer@15s held        -> enter labour:2s
		timer@17s held        -> effect:tick write
		written held          -> exit:done rest:25s
		timer@25s held        -> enter labour:2s
		lost over             -> halt
		halted over           -> exit:fenced release`},
	{"published: a stalled tick looks at nothing, and writes", loopAfter(lockcore.LegacyWarn), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:2s
		timer@60s             -> effect:tick write
		written               -> exit:done rest:15s`},
	{"the fence refuses the tick of a stalled loop", loopAfter(lockcore.LegacyWarn), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:2s
		timer@60s             -> effect:tick write
		written refused       -> exit:refused release`},
	{"the answer to a tick after its work is lost", loopAfter(lockcore.LegacyWarn), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:2s
		timer@7s held         -> effect:tick write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held          -> exit:done rest:15s`},
	{"the replica stops before a tick has written", loopAfter(lockcore.LegacyWarn), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> labour:2s
		quit held             -> halt
		halted held           -> exit:stopped release`},
	{"a loop that gives its key back", loop(lockcore.LoopExplicit), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> effect:tick write
		written held          -> labour:2s
		timer@7s held         -> exit:done release
		released              -> rest:15s`},
	{"an error of the ledger keeps the key", loop(lockcore.LoopRenewed), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> pause:50ms
		timer held            -> write
		written held unknown  -> exit:error rest:15s
		timer@15s held        -> enter effect:begin write`},
	{"the key is lost between two ticks", loop(lockcore.LoopRenewed), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> effect:tick write
		written held          -> labour:2s
		timer@7s held         -> exit:done rest:15s
		lost over             -> release
		released              -> rest:15s
		timer@15s             -> seek
		granted held          -> enter effect:begin write`},
	{"a poll that finds its lock lost gives it back and asks again at once", loop(lockcore.LoopRenewed), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> effect:tick write
		written held          -> labour:2s
		timer@7s held         -> exit:done rest:15s
		timer@15s over        -> release
		released              -> seek
		granted held          -> enter effect:begin write`},
	{"the key is lost at the end of a tick", loop(lockcore.LoopRenewed), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> effect:tick write
		written held          -> labour:2s
		timer@7s over         -> exit:done release
		released              -> rest:15s`},
	{"the replica stops in the midst of a tick", loop(lockcore.LoopTTLHold), `
		start                 -> rest:5s
		timer@5s              -> seek
		granted held          -> enter effect:begin write
		written held          -> effect:tick write
		written held          -> labour:2s
		quit held             -> halt
		halted held           -> exit:stopped release
		released              -> end`},
}

func policy(c lockcore.Class) *lockcore.Policy { return &lockcore.Policy{Class: c} }

func job(c lockcore.Class) Spec { return Spec{Policy: policy(c), Hold: 5 * time.Second} }

func loop(mode lockcore.LoopMode) Spec {
	return Spec{Policy: &lockcore.Policy{Class: lockcore.Critical, Loop: &lockcore.Loop{Poll: 10 * time.Second, Mode: mode, Tick: 2 * time.Second}}}
}

// loopAfter is a loop that renews its key and writes when a tick's work is done.
func loopAfter(c lockcore.Class) Spec {
	s := loop(lockcore.LoopRenewed)
	s.Policy.Class, s.Policy.Loop.Effect = c, lockcore.EffectAfter
	return s
}
