package experiments

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// rule is what a scalar must be like, or that a field must be there. Rules that involve more than one value are in check.go.
type rule struct {
	required  bool
	unless    string   // a field beside it, or the path of a section, with which it is not required
	ident     bool     // a name that can stand in a path, a key and a metric's label
	words     []string // the only values
	positive  bool     // durations and fractions: above 0
	min, max  float64  // whole numbers and fractions; max 0 = no bound but that of 32 bits
	perSecond bool     // spelled as a rate: 20/s
	signed    bool     // durations: may be negative
	brief     string   // sections: the field that may stand alone, as a bare value
	pattern   bool     // texts: a regular expression, which may look like a secret and is none
	single    bool     // lists: a single section stands for a list of one
	quiet     bool     // a resolved file leaves it out where it is zero
}

// ruleOf is the rule in a field's tag, "required,min=1,words=a|b"; without a tag every value is right.
func ruleOf(owner reflect.Type, f reflect.StructField) (r rule) {
	tag, ok := f.Tag.Lookup("rule")
	if !ok {
		return r
	}
	for part := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(part, "=")
		err := error(nil)
		switch name {
		case "required":
			r.required = true
		case "unless":
			r.unless = value
		case "rate":
			r.perSecond = true
		case "faults":
			r.words = append(fault.Allowed(), AllowMonitor)
		case "ident":
			r.ident = true
		case "positive":
			r.positive = true
		case "signed":
			r.signed = true
		case "brief":
			r.brief = cmp.Or(value, "Max")
		case "pattern":
			r.pattern = true
		case "single":
			r.single = true
		case "quiet":
			r.quiet = true
		case "words":
			r.words = strings.Split(value, "|")
		case "min":
			r.min, err = strconv.ParseFloat(value, 64)
		case "max":
			r.max, err = strconv.ParseFloat(value, 64)
		default:
			err = fmt.Errorf("there is no rule %q", name)
		}
		if err != nil {
			panic(fmt.Sprintf("experiments: field %s.%s: %v", owner.Name(), f.Name, err))
		}
	}
	return r
}
