package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdict gives the figures and codes of a verdict.json, a line for each row, and hands its sentences to say with the field that each
// stands in. Of a sentence its figures are left; what is empty is left out.
func Verdict(doc []byte, say func(field, sentence string)) (string, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return "", fmt.Errorf("read verdict: %w", err)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		bare := without(fields[name], name, say)
		switch rows, many := bare.([]any); {
		case bare == "" || many && len(rows) == 0:
		case many:
			fmt.Fprintf(&b, "%s\n", name)
			for _, row := range rows {
				fmt.Fprintf(&b, "  %s\n", line(row))
			}
		default:
			fmt.Fprintf(&b, "%s %s\n", name, line(bare))
		}
	}
	return b.String(), nil
}

// without is v of the field without what is empty, and with figures in place of sentences.
func without(v any, field string, say func(field, sentence string)) any {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, " ") {
			say(field, v)
			return Figures(v)
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], field, say)
		}
	case map[string]any:
		for key, x := range v {
			x = without(x, field+"."+key, say)
			if list, is := x.([]any); x == "" || is && len(list) == 0 {
				delete(v, key)
				continue
			}
			v[key] = x
		}
	}
	return v
}

// line is v in one line, as plain as its values allow.
func line(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+"="+line(v[key]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		var parts []string
		for _, x := range v {
			parts = append(parts, line(x))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}

// Coded is a verdict.json with a code in place of each sentence: its field and its figures. What a report makes of it shows the
// report's own sentences, and not again the judge's.
func Coded(doc []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read verdict: %w", err)
	}
	return json.Marshal(coded(fields, ""))
}

// coded is v of the field.
func coded(v any, field string) any {
	switch v := v.(type) {
	case string:
		if slices.Contains([]string{"why", "next", "what", "warnings", "sum"}, field) && strings.Contains(v, " ") {
			return field + "(" + Figures(v) + ")"
		}
	case []any:
		for i := range v {
			v[i] = coded(v[i], field)
		}
	case map[string]any:
		for key := range v {
			v[key] = coded(v[key], key)
		}
	}
	return v
}
