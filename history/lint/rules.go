package lint

// Rule is one rule of docs/worker-protocol.md that a line can break.
type Rule struct {
	Code    string
	Section string // heading of docs/worker-protocol.md
	Says    string // what the protocol asks
	Change  string // what to do about a line that breaks it
}

// Sections of docs/worker-protocol.md.
const (
	ends    = "How a replica ends"
	inside  = "Faults inside the replica"
	events  = "Events"
	keeping = "Taking, keeping and giving back a lock"
	loops   = "Leader loops"
	effects = "Writing effects"
	doing   = "Commands"
)

// Rules are all of them, in the order of the protocol's page.
func Rules() []Rule {
	return []Rule{
		{"not_ready", doing, "a worker tolerates unknown fields, and says replica.ready within 20 s", "ignore the fields that the worker does not know, write replica.ready when it is connected, and see what it wrote to standard error, which is kept in the run's folder"},
		{"dies", doing, "a worker runs until it is told to end, whatever fields its commands have", "ignore the fields that the worker does not know, and see what it wrote to standard error, which is kept in the run's folder"},
		{"unanswered_offer", doing, "an offer that was carried out is answered by job.ack", "write job.ack with ack done when the work is done and the key given back"},
		{"acked_undone", doing, "a job is answered done when its terminal state is in the ledger", "answer done only after the write of the terminal state was accepted, or reply 5 of begin said that it was there"},
		{"arm_unanswered", inside, "each arm ends in fault.reverted", "answer arm and disarm at once with fault.reverted if the worker makes no faults: the shot is then void"},
		{"exit_status", ends, "a replica that was asked to end exits with status 0", "stop the work, release what is held and exit with status 0; only crash ends with 137"},
		{"outstays", ends, "a replica ends within 10 s of stop, of SIGTERM, and of the end of its standard input", "handle all three alike: stop the work, release what is held, exit"},
		{"kept_at_the_end", ends, "a replica that ends gives back what it holds, or says that it leaves it", "call the same release at stop, at SIGTERM and at the end of standard input as after the work, or write release.skipped"},
		{"no_event", events, "standard output carries events and nothing else, with stamps of CLOCK_MONOTONIC", "write logs to standard error, one JSON document a line to standard output, and stamp with CLOCK_MONOTONIC in nanoseconds"},
		{"late_lines", events, "each line is written at once, unbuffered", "flush after every line"},
		{"op_reused", events, "an op pairs one invoke with one return", "count the ops of a process up and use each once"},
		{"return_without_invoke", events, "each return has an invoke before it with the same op", "write the invoke before the call and the return after it, with one op"},
		{"invoke_without_return", events, "each invoke is followed by its return", "write the return also where the call failed or was given up: with outcome unknown"},
		{"return_from", events, "from of a return is the stamp of its invoke", "keep the stamp that was written with the invoke"},
		{"token_reused", keeping, "the token is random and new for every attempt", "draw a new token for each acquire, not for each process"},
		{"announced_late", keeping, "the line that announces a call is written before the call", "write and flush acquire.invoke, then send the command"},
		{"no_fence", keeping, "a grant of a fenced lock names its fence", "say the number that the acquire script returned in acquire.return"},
		{"holder_unknown", keeping, "the holder of a refusal is the fingerprint of the token that the key carries", "take it from the key in the same script, or leave holder out"},
		{"timeout_is_fail", keeping, "a call whose reply did not come is unknown", "say fail only where the store said no, or where nothing was sent"},
		{"limit_ignored", keeping, "each call is bounded by its limit", "give up the call at its limit and say unknown"},
		{"renewed_in_silence", keeping, "each renewal is announced", "write renew.invoke before each renewal and renew.return after it"},
		{"renewed_of_another", keeping, "a renewal compares the token and then extends the key", "compare and extend in one script, and say fail with absent or other where the key carries another token"},
		{"renewed_after_release", keeping, "no renewal follows the release", "end the renewals before the release"},
		{"lost_in_silence", keeping, "a holder that learns that the lock is lost says so", "write fence.observed when a renewal is answered absent or other, or the lease is over"},
		{"released_at_work", keeping, "the work stops before the release", "write work.exit, end the renewals, and only then release"},
		{"left_against_policy", keeping, "a key that the policy releases is released", "release at the end of the work whenever release.mode is not none"},
		{"work_before_grant", keeping, "work is entered under an epoch that was granted", "enter work only after an acquire was answered with ok"},
		{"lazy_follower", loops, "every replica asks once every loop.poll, also while another leads", "keep asking while another holds the key"},
		{"hasty_ticks", loops, "the leader does one tick every poll", "wait for the rest of loop.poll between ticks and do not make up for missed ones"},
		{"begun_twice", loops, "begin comes once for each epoch, before its first tick", "remember for the epoch that begin is written"},
		{"effect_of_nobody", effects, "an effect names the epoch that its writer acquired", "pass the fingerprint of the token of the grant under which the effect is written"},
		{"done_again", effects, "a job that is finished already is not done again", "read reply 5 of begin (terminal before): where it is 1 and no_look is false, write work.exit, give the key back and answer skipped"},
		{"op_of_two_effects", effects, "the operation id is unique for each intended effect", "use an id a second time only to ask again for the very same effect"},
		{"effect_after_exit", effects, "no effect is written after work.exit", "wait for the last write, or give it up, before work.exit"},
	}
}

// Judged are the rules that no line breaks by itself: what the judge finds out by looks at the keys, by the ledger and by measures. The code
// is that of a finding, or a measure.
func Judged() []Rule {
	return []Rule{
		{"unannounced", keeping, "a key carries the token whose fingerprint acquire.invoke has named", "announce the fingerprint of the very token that is written to the key, before the command is sent"},
		{"ghost", keeping, "who says that an acquire was granted is in the key", "say ok only where the script set the key, under the token whose fingerprint was announced"},
		{"feigned_release", keeping, "a release that is said to have succeeded has deleted the key", "run the script that compares the token and deletes the key, and say what it answered"},
		{"feigned_renewal", keeping, "a renewal that is said to have succeeded has extended the key", "run the script that compares the token and extends the key, and say what it answered"},
		{"foreign_fence", keeping, "an effect carries the fence of the grant under which it is written", "keep the number that the acquire script returned, and write each effect of the epoch with it"},
		{"equal_fence", keeping, "the fence grows with each grant of a key", "make the fence in the script that sets the key: the greater of the server's clock and the last fence plus one"},
		{"fence_regressions", keeping, "the fence grows with each grant of a key", "make and store the fence in the script that sets the key, never in the process"},
		{"no_expiry", keeping, "a key is set together with its expiry", "set key and expiry in one command: SET key token NX PX ttl"},
		{"token_reuse", keeping, "the token is random and new for every attempt", "draw a new token for each acquire, not for each process"},
		{"duplicate_epochs", keeping, "the token is random and new for every attempt", "draw a new token for each acquire, not for each process"},
		{"shared_token", keeping, "the token is random and new for every attempt", "draw the token from the system's source of randomness: two replicas have the same one"},
		{"vanished", keeping, "a key that is another's is left alone until it is free", "set the key only where it is free (NX), and compare the token before each deletion"},
		{"missed_expiry", keeping, "a lease ends a TTL after the last renewal that is answered", "extend the key by policy.ttl and by nothing else, and announce each renewal"},
		{"renewed_after_work", keeping, "no renewal follows the end of the work", "end the renewals after work.exit and before the release"},
		{"orphan_acquires", keeping, "an acquire whose answer did not come is given back", "after an unknown acquire run the release script with the same token, on a limit of its own (undo.invoke, undo.return)"},
		{"foreign_releases", keeping, "a release compares the token and then deletes the key", "compare and delete in one script, and say fail with absent or other where the key carries another token"},
		{"foreign_renewals", keeping, "a renewal compares the token and then extends the key", "compare and extend in one script, and say fail with absent or other where the key carries another token"},
		{"not_owned", keeping, "a release is sent for a key that is still held", "renew while the work lasts, and do not release after fence.observed unless release.after_abandon asks for it"},
		{"lock_debt", keeping, "a key is given back when the work is over", "release at once after work.exit, and try again as policy.release says"},
		{"loss_to_fence", keeping, "the work stops when the lock is lost, at the latest stop_budget before the lease's end", "count the lease from the sending of the last answered call, and stop the work by a timer of its own"},
		{"unowned_work", keeping, "the work stops when the lock is lost, at the latest stop_budget before the lease's end", "renew every renew_every, stop when a renewal is answered absent or other, and ask the clock before every effect"},
		{"abandonment", keeping, "a holder gives the lock up by itself, at the latest stop_budget before the lease's end", "count the lease from the sending of the last answered call, and write fence.observed and stop the work by a timer of its own, whether or not a renewal is answered"},
		{"overlap", effects, "an effect is written under a lock that is held", "ask before every effect whether the lease still lasts, and write it with the fence of the grant"},
		{"outside_call", events, "from is the time before a call, and to the time after its reply", "read CLOCK_MONOTONIC itself, just before the call and just after the reply, without an offset"},
		{"no_begin", effects, "every epoch writes begin when it enters work", "write the effect begin before the work of a job and before the first tick of a loop"},
		{"duplicate_terminal_states", effects, "a job is finished once", "read reply 5 of begin: where it is 1, do not do the job again; write under the fence of the grant"},
		{"stranded", doing, "an offer is carried out", "take every offer, and answer busy where the key is another's: the job is then offered again"},
		{"takeover", loops, "another replica goes on when the holder is dead", "ask for the key once every loop.poll, do offered jobs at once, and write begin with the grant"},
		{"tick_gap", loops, "the leader does one tick every poll", "ask for the key once every loop.poll, and begin to tick with the grant"},
	}
}

// RuleOf is the rule of a code; ok is false where there is none.
func RuleOf(code string) (r Rule, ok bool) {
	for _, r := range append(Rules(), Judged()...) {
		if r.Code == code {
			return r, true
		}
	}
	return Rule{}, false
}
