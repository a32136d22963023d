package explore

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/lockcore"
)

// label is Search.Label of the world: the time in steps, the step, and what the contender's machine was and is then.
func (w *World) label(from *state, nth int) string {
	m := w.moves(from)[nth]
	to, _ := w.take(from, m)
	text := fmt.Sprintf("t=%d  %s", from.now, w.describe(from, m))
	if m.kind == passes || m.kind == flushes || m.kind == deletes {
		return text
	}
	if now := stateOf(to.who[m.who].m); now != stateOf(from.who[m.who].m) {
		text += ", which is now " + now
	}
	for _, sent := range to.messages[min(len(from.messages), len(to.messages)):] {
		text += "; sends " + sent.name()
	}
	return text
}

func (w *World) describe(s *state, m move) string {
	who := "contender " + string(rune('A'+m.who))
	switch m.kind {
	case starts:
		return who + " starts an attempt"
	case arrives:
		msg := s.messages[m.message]
		text := map[messageKind]string{request: "the store gets ", reply: who + " gets ", effect: "the ledger gets "}[msg.kind] + msg.name()
		if msg.again {
			text += " a second time"
		}
		return text
	case refused:
		return s.messages[m.message].name() + " cannot be sent"
	case timesOut:
		return fmt.Sprintf("%s: %s is past its deadline", who, s.who[m.who].call.Op)
	case ticks:
		return who + ": a timer"
	case stops:
		return who + " stops its work"
	case writes:
		return who + " sees that it may write"
	case gaveUp:
		return who + ": the caller gives up"
	case dies:
		return who + " dies"
	case flushes:
		return "the store loses everything; time passes"
	case deletes:
		return "somebody deletes the key"
	}
	return "time passes" + clocks(m.lags)
}

func clocks(lags []int) string {
	var late []string
	for i, lag := range lags {
		if lag > 0 {
			late = append(late, string(rune('A'+i)))
		}
	}
	if len(late) == 0 {
		return ""
	}
	return " (behind: " + strings.Join(late, ", ") + ")"
}

func (m message) name() string {
	who := string(rune('A'+m.who)) + fmt.Sprint(m.epoch)
	switch m.kind {
	case request:
		return fmt.Sprintf("%s of %s", m.op, who)
	case reply:
		return fmt.Sprintf("the reply %s to %s of %s", m.result, m.op, who)
	}
	return fmt.Sprintf("%s of %s", m.state, who)
}

func stateOf(m lockcore.Attempt) string {
	if m == nil {
		return "away"
	}
	names := []string{"idle", "seeking", "waiting", "undoing", "holding", "left", "fenced", "releasing", "done"}
	return names[m.State()]
}
