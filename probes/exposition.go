package probes

import (
	"bytes"
	"errors"
	"io"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// acceptExposition asks for protobuf first: no other form has native histograms.
var acceptExposition = string(expfmt.NewFormat(expfmt.TypeProtoDelim)) + ";q=0.9," + string(expfmt.NewFormat(expfmt.TypeTextPlain)) + ";q=0.5"

// parseExposition reads an exposition in whichever form it is: protobuf, OpenMetrics, or Prometheus' text.
func parseExposition(data []byte) (map[string]*dto.MetricFamily, error) {
	if families, ok := parseProtobuf(data); ok {
		return families, nil
	}
	if text, is := bytes.CutSuffix(bytes.TrimSpace(data), []byte("# EOF")); is {
		data = classicText(string(text))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(data))
}

// parseProtobuf reads delimited messages; ok = that is what it is, to its last byte.
func parseProtobuf(data []byte) (families map[string]*dto.MetricFamily, ok bool) {
	d := expfmt.NewDecoder(bytes.NewReader(data), expfmt.NewFormat(expfmt.TypeProtoDelim))
	families = map[string]*dto.MetricFamily{}
	for {
		f := &dto.MetricFamily{}
		if err := d.Decode(f); err != nil {
			return families, errors.Is(err, io.EOF) && len(families) > 0
		}
		if f.GetName() == "" {
			return nil, false
		}
		families[f.GetName()] = f
	}
}

// classicText turns OpenMetrics into what Prometheus' text has for the same: counters are called as their samples, and exemplars, units,
// stamps and times of creation are left out.
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
				b.WriteString(line[:end] + " " + value[0] + "\n")
			}
		}
	}
	return b.Bytes()
}

// seriesEnd is where name and labels of a sample end.
func seriesEnd(line string) int {
	start := strings.IndexAny(line, "{ ")
	if start < 0 || line[start] == ' ' {
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
