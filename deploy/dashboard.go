package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// panelsFile is panels.yaml.
type panelsFile struct {
	Rows        []panelRow `yaml:"rows"`
	Annotations []mark     `yaml:"annotations"`
}

type panelRow struct {
	Title  string  `yaml:"title"`
	Panels []panel `yaml:"panels"`
}

type panel struct {
	Title   string `yaml:"title"`
	Says    string `yaml:"says"`
	Kind    string `yaml:"kind"` // of Grafana; timeseries where empty
	Unit    string `yaml:"unit"`
	Limit   string `yaml:"limit"`
	Show    string `yaml:"show"` // of a stat: name = the legend alone
	Targets []struct {
		Expr   string `yaml:"expr"`
		Legend string `yaml:"legend"`
	} `yaml:"targets"`
}

type mark struct {
	Name        string `yaml:"name"`
	Color       string `yaml:"color"`
	Expr        string `yaml:"expr"`
	ValueIsTime bool   `yaml:"value_is_time"`
	Title       string `yaml:"title"`
	Text        string `yaml:"text"`
}

// Sizes on Grafana's grid, which is 24 wide.
const (
	gridWidth   = 24
	panelWidth  = 8
	panelHeight = 7
)

// object is a piece of Grafana's model, which is JSON without types that anybody promises; encoding/json sorts its keys.
type object = map[string]any

func datasource() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// Dashboard writes a Grafana dashboard for the series of m, to be imported as it is: the data source is chosen in it. It says which
// panels and annotations it had to leave out; the dashboard's description says so as well.
func Dashboard(m *Mapping) (text []byte, dropped []Dropped, err error) {
	var doc panelsFile
	shipped("panels.yaml", &doc)
	f := &filler{m: m, c: catalogue(), inline: true, scale: 1}
	var panels []object
	next, y := 1, 0
	for _, row := range doc.Rows {
		var filled []object
		for _, p := range row.Panels {
			o, missing, err := f.panel(&p)
			if err != nil {
				return nil, nil, err
			}
			if len(missing) > 0 {
				dropped = append(dropped, Dropped{"panel " + p.Title, missing})
				continue
			}
			filled = append(filled, o)
		}
		if len(filled) == 0 {
			continue
		}
		panels = append(panels, object{"id": next, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": gridWidth, "h": 1}})
		next, y = next+1, y+1
		for i, o := range filled {
			o["id"] = next
			o["gridPos"] = object{"x": i * panelWidth % gridWidth, "y": y + i*panelWidth/gridWidth*panelHeight, "w": panelWidth, "h": panelHeight}
			panels, next = append(panels, o), next+1
		}
		y += (len(filled)*panelWidth + gridWidth - 1) / gridWidth * panelHeight
	}
	if len(panels) == 0 {
		return nil, nil, fmt.Errorf("%s: no panel has the signals that it needs", m.Name)
	}
	marks, without, err := f.marks(doc.Annotations)
	if err != nil {
		return nil, nil, err
	}
	dropped = append(dropped, without...)
	text, err = writeDashboard(m, panels, marks, dropped)
	return text, dropped, err
}

func (f *filler) panel(p *panel) (object, []string, error) {
	var targets []object
	var lacks []string
	for i, t := range p.Targets {
		expr, missing, err := f.fill(t.Expr)
		if err != nil {
			return nil, nil, err
		}
		for _, signal := range missing {
			if !slices.Contains(lacks, signal) {
				lacks = append(lacks, signal)
			}
		}
		legend, _, err := f.fill(t.Legend)
		if err != nil {
			return nil, nil, err
		}
		if strings.TrimSpace(legend) == "" {
			legend = "all"
		}
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": datasource(), "expr": expr, "legendFormat": legend, "editorMode": "code", "range": true})
	}
	steps := []object{{"color": "green", "value": nil}}
	custom := object{"fillOpacity": 10, "showPoints": "auto", "spanNulls": false}
	if p.Limit != "" {
		limit, err := f.threshold(p.Limit)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, object{"color": "red", "value": limit})
		custom["thresholdsStyle"] = object{"mode": "line"}
	}
	defaults := object{"unit": p.Unit, "min": 0, "thresholds": object{"mode": "absolute", "steps": steps}}
	kind, options := "timeseries", object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	if p.Kind == "stat" {
		kind, options = "stat", object{"colorMode": "value", "graphMode": "none", "textMode": "value_and_name",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}}
		if p.Show != "" {
			options["textMode"] = p.Show
		}
	} else {
		defaults["custom"] = custom
	}
	return object{"type": kind, "title": p.Title, "description": p.Says, "datasource": datasource(), "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options}, lacks, nil
}

func (f *filler) marks(all []mark) (filled []object, dropped []Dropped, err error) {
	for _, a := range all {
		expr, missing, err := f.fill(a.Expr)
		if err != nil {
			return nil, nil, err
		}
		if len(missing) > 0 {
			dropped = append(dropped, Dropped{"annotation " + a.Name, missing})
			continue
		}
		filled = append(filled, object{"name": a.Name, "enable": true, "hide": false, "iconColor": a.Color, "datasource": datasource(),
			"expr": expr, "step": "2s", "titleFormat": a.Title, "textFormat": a.Text, "useValueForTime": a.ValueIsTime})
	}
	return filled, dropped, nil
}

func writeDashboard(m *Mapping, panels, marks []object, dropped []Dropped) ([]byte, error) {
	says := "Made by lockdrill export for the metrics of " + oneLine(m.Name) + "."
	for _, d := range dropped {
		says += "\n" + d.String() + "."
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(object{
		"uid": "lockdrill-locks", "title": "Locks and drills", "description": says, "tags": []string{"locks", "lockdrill"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "utc", "refresh": "1m",
		"time":        object{"from": "now-6h", "to": "now"},
		"annotations": object{"list": marks},
		"templating": object{"list": []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
			"hide": 0, "refresh": 1, "regex": "", "includeAll": false, "multi": false, "options": []object{}, "current": object{}}}},
		"panels": panels,
	})
	if err != nil {
		return nil, fmt.Errorf("write dashboard: %w", err)
	}
	return b.Bytes(), nil
}
