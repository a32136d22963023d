package experiments

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// gameDayFile is the sheet of a game day as it is spelled.
type gameDayFile struct {
	APIVersion string `file:"apiVersion" rule:"required,words=lockdrill/v1"` // version of this file format
	Kind       string `rule:"required,words=GameDay"`                        // what the file is
	GameDay
}

// GameDay is an ordered list of drills, and of steps that people do between them.
type GameDay struct {
	Name          string            `rule:"required,ident"` // of the game day, and of its folder
	Hypothesis    string            `rule:"required"`       // what the day is to show
	Owner         string            `rule:"required"`       // who decides
	Roles         map[string]string // who does what on the day, by role
	StopCriterion string            `rule:"required"` // when people end the day early
	StopWhen      *StopWhen         // what ends the day by itself
	Steps         []GameDayStep     `rule:"required"` // in their order
}

// StopWhen is what ends a game day by itself.
type StopWhen struct {
	Exit []string `rule:"required,words=error|usage|slo-failed|inconclusive|aborted|refused|dirty"` // a drill that ends so; dirty ends the day in any case
}

// GameDayStep is one step. Exactly one of Drill and Manual is set.
type GameDayStep struct {
	_        struct{} `rule:"any=drill|manual"`
	Name     string   `rule:"ident,unique"` // in log and report; default: step-1 and so on
	Drill    string   // an experiment file beside the sheet, or a shipped scenario
	Manual   string   `rule:"not=drill"`  // what people do, before they press enter
	Optional bool     `rule:"for=manual"` // skipped, and noted, where there is no terminal
}

// ParseGameDay reads and checks the sheet of a game day. lacks says why a step's drill is not there (nil = not asked). The error is
// always of type Problems.
func ParseGameDay(name string, data []byte, lacks func(drill string) error) (*GameDay, error) {
	doc := gameDayFile{}
	f := openFile("GameDay", name, data)
	if f.Root != nil {
		f.Decode(&doc)
		f.CheckRules("", &doc)
		f.Refuse(len(doc.Steps) > 0 && !slices.ContainsFunc(doc.Steps, func(s GameDayStep) bool { return strings.TrimSpace(s.Drill) != "" }), "steps", "no step is a drill: nothing would be measured")
		for i, s := range doc.Steps {
			if s.Drill != "" && lacks != nil {
				if err := lacks(s.Drill); err != nil {
					f.Check(vocab.Join(vocab.At("steps", i), "drill"), "%s", err)
				}
			}
		}
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &doc.GameDay, nil
}

// GameDaySchema is the JSON Schema of the sheet of a game day, as Schema is that of an experiment.
func GameDaySchema() ([]byte, error) {
	return schemaOf("lockdrill game day", &gameDayFile{})
}

// Kinds of file.
const (
	KindExperiment = "Experiment"
	KindGameDay    = "GameDay"
)

// KindOf is the kind that a file says it is of; "" where it says none.
func KindOf(data []byte) string {
	var doc struct{ Kind string }
	_ = yaml.Unmarshal(data, &doc) // what is wrong with it says who reads it as that kind
	return doc.Kind
}
