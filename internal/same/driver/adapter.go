package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// adapter is this tree. This file and random.go are the only ones that know its internal calls: where those change, these follow.
func adapter() api {
	return api{schemas: schemas, file: file, recorded: recorded, rehearse: rehearse, drill: drill}
}

func schemas() (docs, error) {
	all := docs{}
	for name, schema := range map[string]func() ([]byte, error){
		"experiment": experiments.Schema, "gameday": experiments.GameDaySchema,
	} {
		doc, err := schema()
		if err != nil {
			return nil, err
		}
		all[name+".schema.json"] = string(doc)
	}
	return all, nil
}

// file gives the places of a file's problems; of an experiment without problems, its forms.
func file(kind, name string) (docs, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var e *experiments.Experiment
	switch kind {
	case kindGameDay:
		_, err = experiments.ParseGameDay(name, data, nil)
	default:
		e, err = experiments.Load(name)
	}
	var problems experiments.Problems
	switch {
	case errors.As(err, &problems):
		return docs{"places.pairs": places(problems)}, nil
	case err != nil:
		return nil, err
	case e == nil:
		return docs{"places.pairs": pairs(nil)}, nil
	}
	return forms(e)
}

// places gives the path of each problem, which its message begins with, and where it is.
func places(problems experiments.Problems) string {
	var all [][2]string
	for _, p := range problems {
		field, _, ok := strings.Cut(p.Message, ": ")
		if !ok || strings.Contains(field, " ") {
			field = "the file"
		}
		all = append(all, [2]string{field, fmt.Sprintf("%s:%d:%d", path.Base(p.File), p.Line, p.Column)})
	}
	return pairs(all)
}

// forms are what Marshal gives, and what Settings gives of an experiment and of it at its time scale, which Marshal refuses.
func forms(e *experiments.Experiment) (docs, error) {
	text, err := experiments.Marshal(e)
	if err != nil {
		return nil, err
	}
	all := docs{"places.pairs": pairs(nil), "marshal.txt": string(text)}
	scaled := experiments.Scale(e)
	for name, e := range map[string]*experiments.Experiment{"settings.pairs": e, "scaled.pairs": scaled} {
		settings := [][2]string{{"(scaled)", fmt.Sprint(e.Scaled)}}
		for _, s := range experiments.Settings(e) {
			settings = append(settings, [2]string{s.Path, s.Value})
		}
		all[name] = pairs(settings)
	}
	return all, nil
}

// recorded judges a run's folder as `lockdrill judge` does.
func recorded(dir string) (docs, error) {
	e, err := experiments.Load(path.Join(dir, "experiment.yaml"))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path.Join(dir, "history.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	events, err := history.NewReader(f)
	if err != nil {
		return nil, err
	}
	record := reports.NewRecord(e, events.Header(), func(numbers []int64, see func(*history.Event)) error {
		again, err := os.Open(f.Name())
		if err != nil {
			return err
		}
		defer again.Close()
		return events.Marks().Events(again, numbers, see)
	})
	facts, err := analysis.Read(e, history.Tee(events, record.See))
	if err != nil {
		return nil, err
	}
	return judged(e, record, facts)
}

// judged gives the documents of a run. The verdict is the judge's, read anew: others are words for people.
func judged(e *experiments.Experiment, record *reports.Record, facts *analysis.Facts) (docs, error) {
	j := facts.Judge()
	r := reports.Run{Experiment: e, Record: record, Judgement: j, Lanes: timeline.Read(facts.Facts, j)}
	doc, err := j.Marshal()
	if err != nil {
		return nil, err
	}
	all := docs{"verdict.json": string(doc)}
	for name, write := range map[string]func(io.Writer, reports.Run) error{
		"metrics.prom":  func(w io.Writer, r reports.Run) error { return reports.MetricsOf(r).Write(w) },
		"slos.csv":      reports.SLOsCSV,
		"takeovers.csv": reports.TakeoversCSV,
		"junit.xml":     reports.JUnit,
	} {
		var b strings.Builder
		if err := write(&b, r); err != nil {
			return nil, err
		}
		all[name] = b.String()
	}
	return all, nil
}

// rehearse gives a rehearsal's history and judgement, at real durations, as `lockdrill rehearse` does; of what cannot be rehearsed, and of
// what is no experiment, nothing.
func rehearse(name string, seed int64) (docs, error) {
	e, err := experiments.Load(name)
	var problems experiments.Problems
	if errors.As(err, &problems) {
		return nil, nil // the file's own run has them
	}
	if err != nil {
		return nil, err
	}
	if rehearsal.Unable(e) != "" {
		return docs{"rehearsed.pairs": pairs([][2]string{{"able", "false"}})}, nil
	}
	e = rehearsal.RealTime(e)
	d, err := rehearsal.New(e, sim.DefaultNet()).Run(context.Background(), seed)
	if err != nil {
		return nil, err
	}
	return witnessed(e, d.History)
}

// drill gives a random drill, judged as if it were live, against limits that it may meet or not.
func drill(seed uint64) (docs, error) {
	e, net := randomDrill(seed)
	d, err := rehearsal.New(e, net).Run(context.Background(), int64(seed))
	if err != nil {
		return nil, err
	}
	d.History.Header.Mode = history.Live
	lateMachine(rand.New(rand.NewPCG(seed, 7)), d.History)
	e.SLOs = slices.Concat(e.SLOs, limits(e, rand.New(rand.NewPCG(seed, 6))))
	return witnessed(e, d.History)
}

// witnessed gives the history of a rehearsal and its judgement.
func witnessed(e *experiments.Experiment, h *history.History) (docs, error) {
	all, err := judged(e, reports.RecordOf(e, h), analysis.FactsOf(e, h))
	if err != nil {
		return nil, err
	}
	f := newForm()
	header, err := json.Marshal(h.Header)
	if err != nil {
		return nil, err
	}
	f.add("header", header)
	delete(f.sums, "header .schema")
	for i := range h.Events {
		line, err := history.MarshalEvent(&h.Events[i])
		if err != nil {
			return nil, err
		}
		f.add(string(h.Events[i].Kind), line)
	}
	all["history.pairs"] = f.pairs()
	return all, nil
}
