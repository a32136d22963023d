package burst

import (
	"fmt"
	"slices"
)

// Check says all that is wrong with a burst on a lock, each with the field and how to put it right. What bounds it is for whoever
// drives the burst to ask.
func (s *Spec) Check(say func(field, problem, remedy string)) {
	if !slices.Contains([]string{Acquire, Renew, Release}, s.Op) {
		say("op", fmt.Sprintf("%q is no operation on a lock", s.Op), "one of acquire, renew, release")
	}
	if !slices.Contains([]string{Error, Timeout, Delay, LostReply}, s.Mode) {
		say("mode", fmt.Sprintf("%q is no way to fail", s.Mode), "one of error, timeout, delay, lost_reply")
	}
	if s.Count < 0 {
		say("count", "is negative", "the number of operations that fail, or 0 for all during `for`")
	}
	if !(s.Share >= 0 && s.Share <= 1) {
		say("share", fmt.Sprintf("%v is no share", s.Share), "above 0 and at most 1, or leave it out: all")
	}
	if s.Mode == Delay && s.Delay <= 0 {
		say("delay", "mode delay needs one", "how long each operation is held back, as \"200ms\"")
	}
}
