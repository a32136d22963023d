package probes

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lockdrill/lockdrill/stores/witness"
)

// acceptExposition asks for protobuf first: no other form has native histograms.
var acceptExposition = string(expfmt.NewFormat(expfmt.TypeProtoDelim)) + ";q=0.9," + string(expfmt.NewFormat(expfmt.TypeTextPlain)) + ";q=0.5"

// parseExposition reads the families of an exposition that the series belongs to, or all; in whichever form it is: protobuf, OpenMetrics,
// or Prometheus' text. What is wrong with other families takes nothing from these.
func parseExposition(data []byte, series string) (map[string]*dto.MetricFamily, error) {
	if families, ok := parseProtobuf(data, series); ok {
		return families, nil
	}
	text, openMetrics := bytes.CutSuffix(bytes.TrimSpace(data), []byte("# EOF"))
	page := exposed(text, series)
	if bad := page.bad; bad.n > 0 && len(page.lines) == 0 { // it says nothing of the series, and not because there is none
		return nil, fmt.Errorf("line %d, %q, is no sample", bad.n, witness.Cut(string(bad.text)))
	}
	kept := page.text()
	if openMetrics {
		kept = classicText(string(kept))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(kept))
	var where expfmt.ParseError
	if errors.As(err, &where) && !openMetrics && where.Line <= len(page.lines) {
		x := page.lines[max(0, where.Line-1)]
		return nil, fmt.Errorf("line %d, %q: %s", x.n, witness.Cut(string(x.text)), where.Msg)
	}
	return families, err
}

// exposedPage is what counts of a text: the type of each family first, then its samples. expfmt wants a family in one piece, with one type and
// the end of its last line; Prometheus does not.
type exposedPage struct {
	lines []pageLine
	bad   pageLine // the first line that is no sample; n 0 = all are
}

type pageLine struct {
	n    int // in the text, 1 is the first
	text []byte
}

func (p *exposedPage) text() []byte {
	var b bytes.Buffer
	for _, l := range p.lines {
		b.Write(l.text)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func exposed(text []byte, series string) *exposedPage {
	types := map[string]pageLine{}
	samples := map[string][]pageLine{}
	var order []string // of names of samples
	var bad pageLine
	histogram, counted := strings.CutSuffix(series, "_bucket") // of which the last bucket may stand in its count alone
	n := 0
	for line := range bytes.Lines(text) {
		n++
		x := pageLine{n, bytes.Trim(line, " \t\r\n")}
		switch {
		case len(x.text) == 0:
		case x.text[0] == '#':
			if words := bytes.Fields(x.text); len(words) == 4 && string(words[1]) == "TYPE" && ofSeries(string(words[2]), series) {
				if _, known := types[string(words[2])]; !known {
					types[string(words[2])] = x
				}
			}
		default:
			name := sampleName(x.text)
			if bad.n == 0 && !isSample(name, x.text) {
				bad = x
			}
			if ofSeries(name, series) || ofSeries(series, name) || counted && ofSeries(histogram, name) {
				if samples[name] == nil {
					order = append(order, name)
				}
				samples[name] = append(samples[name], x)
			}
		}
	}
	of := map[string][]string{} // by family: names of its samples; "" = no type is told
	for _, name := range order {
		family := ""
		for f := range types {
			if ofSeries(f, name) && len(f) > len(family) {
				family = f
			}
		}
		of[family] = append(of[family], name)
	}
	p := &exposedPage{bad: bad}
	for _, family := range slices.Sorted(maps.Keys(of)) {
		if t, told := types[family]; told {
			p.lines = append(p.lines, t)
		}
		for _, name := range of[family] {
			p.lines = append(p.lines, samples[name]...)
		}
	}
	return p
}

// parts are what series of one family have behind its name.
var parts = []string{"", "_total", "_sum", "_count", "_bucket", "_info", "_created", "_gsum", "_gcount"}

// ofSeries reports that the family may have that series; each may, where the series is "".
func ofSeries(family, series string) bool {
	part, ok := strings.CutPrefix(series, family)
	return series == "" || ok && slices.Contains(parts, part)
}

// named is a name that a sample can have.
var named = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

// isSample reports a name and a value.
func isSample(name string, line []byte) bool {
	value := bytes.Fields(line[seriesEnd(string(line)):])
	if !named.MatchString(name) && line[0] != '{' || len(value) == 0 {
		return false
	}
	_, err := strconv.ParseFloat(string(value[0]), 64)
	return err == nil
}

// sampleName is the name of the series that a line is about.
func sampleName(line []byte) string {
	if inner, quoted := bytes.CutPrefix(line, []byte("{\"")); quoted { // a name that has more than letters in it
		name, _, _ := bytes.Cut(inner, []byte("\""))
		return string(name)
	}
	if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
		line = line[:end]
	}
	return string(line)
}

// parseProtobuf reads delimited messages; ok = that is what it is, to its last byte. Families of other series are passed over.
func parseProtobuf(data []byte, series string) (families map[string]*dto.MetricFamily, ok bool) {
	families = map[string]*dto.MetricFamily{}
	for some := false; ; some = true {
		if len(data) == 0 {
			return families, some
		}
		message, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return nil, false
		}
		data = data[n:]
		number, kind, head := protowire.ConsumeTag(message)
		if head < 0 || number != 1 || kind != protowire.BytesType { // of a family: its name
			return nil, false
		}
		name, end := protowire.ConsumeString(message[head:])
		switch {
		case end < 0 || name == "":
			return nil, false
		case !ofSeries(name, series):
			continue
		}
		f := &dto.MetricFamily{}
		if proto.Unmarshal(message, f) != nil {
			return nil, false
		}
		families[name] = f
	}
}

// classicText turns OpenMetrics into what Prometheus' text has for the same: counters are called as their samples, stamps are in milliseconds,
// and exemplars, units and times of creation are left out.
func classicText(text string) []byte {
	var b bytes.Buffer
	created := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "#" && words[1] == "TYPE":
			name, typ := words[2], words[3]
			created[name+"_created"] = true
			switch typ {
			case "counter":
				name += "_total"
			case "stateset":
				typ = "gauge"
			case "info":
				name, typ = name+"_info", "gauge"
			case "unknown", "gaugehistogram":
				typ = "untyped"
			}
			b.WriteString("# TYPE " + name + " " + typ + "\n")
		case len(words) == 0 || words[0] == "#":
		default:
			end := seriesEnd(line)
			if value := strings.Fields(line[end:]); len(value) > 0 && !created[strings.TrimSpace(strings.SplitN(line[:end], "{", 2)[0])] {
				b.WriteString(line[:end] + " " + value[0])
				if len(value) > 1 {
					if at, err := strconv.ParseFloat(value[1], 64); err == nil {
						fmt.Fprintf(&b, " %d", int64(at*1e3))
					}
				}
				b.WriteByte('\n')
			}
		}
	}
	return b.Bytes()
}

// seriesEnd is where name and labels of a sample end.
func seriesEnd(line string) int {
	start := strings.IndexAny(line, "{ \t")
	if start < 0 || line[start] != '{' {
		return max(start, 0)
	}
	quoted := false
	for i := start; i < len(line); i++ {
		switch {
		case quoted && line[i] == '\\':
			i++
		case line[i] == '"':
			quoted = !quoted
		case !quoted && line[i] == '}':
			return i + 1
		}
	}
	return len(line)
}
