package probes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// PromServer is how a Prometheus server is reached.
type PromServer struct {
	URL string
	Asker
}

// Asker is who asks by HTTP, and how he knows whom he asks.
type Asker struct {
	User, Password, Bearer string // "" = none
	Headers                map[string]string
	CA, Cert, Key          string // PEM files; "" = the system's, and no certificate
}

// client goes nowhere else where it is sent there: what says who asks is for nobody else.
func (a *Asker) client() (*http.Client, error) {
	secure, err := endpoint.Secure("", a.CA, a.Cert, a.Key)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{MaxIdleConnsPerHost: 1, TLSClientConfig: secure}
	return &http.Client{Timeout: scrapeWithin, Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// sign says in a request who asks.
func (a *Asker) sign(r *http.Request) {
	for name, value := range a.Headers {
		r.Header.Set(name, value)
	}
	switch {
	case a.Bearer != "":
		r.Header.Set("Authorization", "Bearer "+a.Bearer)
	case a.User != "" || a.Password != "":
		r.SetBasicAuth(a.User, a.Password)
	}
}

// promServer speaks the HTTP API of Prometheus.
type promServer struct {
	o      PromServer
	client *http.Client
	clock  func() int64
}

func newPromServer(o PromServer, clock func() int64) (*promServer, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	return &promServer{o: o, clock: clock, client: client}, nil
}

// rawSeries is a series with samples, at least one, by their stamps.
type rawSeries struct {
	labels  map[string]string
	samples []rawSample
}

type rawSample struct {
	stamp int64 // ns by the server's clock
	value float64
}

// fetch asks.
func (s *promServer) fetch(ctx context.Context, path string, query url.Values) (res *http.Response, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.o.URL, "/")+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, nil, err
	}
	s.o.sign(req)
	res, err = s.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxExposition))
	return res, body, err
}

// get asks, and decodes the data of the answer.
func (s *promServer) get(ctx context.Context, path string, query url.Values, data any) error {
	res, body, err := s.fetch(ctx, path, query)
	if err != nil {
		return err
	}
	var answer struct {
		Status, ErrorType, Error string
		Warnings                 []string
		IsPartial                bool // says VictoriaMetrics
		Data                     json.RawMessage
	}
	switch err := json.Unmarshal(body, &answer); {
	case res.StatusCode == http.StatusBadRequest && err == nil && answer.ErrorType == "bad_data":
		return fmt.Errorf("%w: %s", ErrQuery, witness.Cut(answer.Error))
	case res.StatusCode != http.StatusOK && err == nil && answer.Error != "":
		return fmt.Errorf("it answers %s: %s", res.Status, witness.Cut(answer.Error))
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", res.Status)
	case err != nil || answer.Status != "success":
		return fmt.Errorf("its answer is none of Prometheus: %s", witness.Cut(strings.TrimSpace(string(body))))
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		return err
	}
	switch {
	case len(answer.Warnings) > 0:
		return &partial{witness.Cut(strings.Join(answer.Warnings, "; "))}
	case answer.IsPartial:
		return &partial{"isPartial"}
	}
	return nil
}

// partial is the error of an answer that is none of everything, by its own word; its data is there all the same.
type partial struct{ what string }

func (p *partial) Error() string { return "its answer is not whole: " + p.what }

// now asks what time it is there.
func (s *promServer) now(ctx context.Context) (c promClock, err error) {
	for _, ask := range []string{"time()", "now()"} {
		var data result
		c.asked = history.At(s.clock())
		data, _, err = s.query(ctx, url.Values{"query": {ask}}) // of the time a partial answer has all that there is
		c.asked.To = s.clock()
		if err != nil {
			return c, err
		}
		if data.ResultType == "scalar" {
			var at [2]json.RawMessage
			if err = json.Unmarshal(data.Result, &at); err == nil {
				c.said, err = stampOf(at[0])
			}
			return c, err
		}
		// VictoriaMetrics evaluates time() some time ago, and stamps it in whole seconds; its now() is the clock.
		if ask == "now()" {
			var at []struct{ Value [2]json.RawMessage }
			if err = json.Unmarshal(data.Result, &at); err == nil && len(at) == 1 {
				c.said, err = stampOf(bytes.Trim(at[0].Value[1], `"`))
				return c, err
			}
		}
	}
	return c, errors.Join(errors.New("it does not say what time it is"), err)
}

// result is that of a query, of whatever type.
type result struct {
	ResultType string
	Result     json.RawMessage
}

// query evaluates a query now. lacks says that the answer is partial; nil = it is whole.
func (s *promServer) query(ctx context.Context, query url.Values) (r result, lacks, err error) {
	err = s.get(ctx, "/api/v1/query", query, &r)
	if less := new(partial); errors.As(err, &less) {
		return r, less, nil
	}
	return r, nil, err
}

// samples are the raw samples of a selector, so far back. Beside an error that says that the answer is partial, they are what it has.
func (s *promServer) samples(ctx context.Context, selector string, back time.Duration) ([]rawSeries, error) {
	var all []rawSeries
	var result []struct {
		Metric     map[string]string
		Values     [][2]json.RawMessage
		Histograms [][2]json.RawMessage
	}
	query := fmt.Sprintf("%s[%dms]", selector, back.Milliseconds())
	data, lacks, err := s.query(ctx, url.Values{"query": {query}})
	if err != nil {
		return nil, err
	}
	if data.ResultType != "matrix" {
		return nil, fmt.Errorf("%w: it gives a %s, and samples are wanted", ErrQuery, data.ResultType)
	}
	if err := json.Unmarshal(data.Result, &result); err != nil {
		return nil, err
	}
	for _, r := range result {
		one := rawSeries{labels: r.Metric}
		delete(one.labels, "__name__")
		for _, pair := range append(r.Values, r.Histograms...) {
			stamp, err := stampOf(pair[0])
			if err != nil {
				return nil, err
			}
			v, ok := valueOf(pair[1])
			if !ok {
				return nil, fmt.Errorf("a value is no number: %s", witness.Cut(string(pair[1])))
			}
			one.samples = append(one.samples, rawSample{stamp, v})
		}
		if len(one.samples) > 0 {
			all = append(all, one)
		}
	}
	return all, lacks
}

// Instant evaluates a query once: the values of its result, all of which are numbers to go by.
func Instant(ctx context.Context, query string, o PromServer) (all []float64, err error) {
	s, err := newPromServer(o, nil)
	if err != nil {
		return nil, err
	}
	defer s.client.CloseIdleConnections()
	values, err := s.evaluate(ctx, query)
	if err != nil {
		return nil, err
	}
	for _, x := range values {
		v := float64(x.Value)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("the query gives %g, which is no number to go by", v)
		}
		all = append(all, v)
	}
	return all, nil
}

// evaluate gives the series of a query's result as it is now, or its scalar. Beside an error that says that the answer is partial, they are
// what it has. VictoriaMetrics gives the result of some time ago where it is not told to look anew.
func (s *promServer) evaluate(ctx context.Context, query string) (all []history.Value, err error) {
	data, lacks, err := s.query(ctx, url.Values{"query": {query}, "nocache": {"1"}})
	if err != nil {
		return nil, err
	}
	samples := []struct {
		Metric    map[string]string
		Value     [2]json.RawMessage
		Histogram json.RawMessage
	}{{}}
	switch {
	case len(data.Result) == 0 || string(data.Result) == "null":
		return nil, fmt.Errorf("%w: it gives no result, which is not an empty one", ErrQuery)
	case data.ResultType == "vector":
		err = json.Unmarshal(data.Result, &samples)
	default:
		err = json.Unmarshal(data.Result, &samples[0].Value)
	}
	for _, x := range samples {
		v, ok := valueOf(x.Value[1])
		switch {
		case x.Histogram != nil:
			return nil, fmt.Errorf("%w: it gives histograms, and numbers are wanted: ask for histogram_quantile, histogram_count or histogram_sum of them", ErrQuery)
		case (!ok || err != nil) && lacks != nil:
			return nil, lacks
		case !ok || err != nil:
			return nil, errors.Join(fmt.Errorf("%w: it gives a %s, and a number, or numbers, are wanted", ErrQuery, data.ResultType), err)
		}
		all = append(all, history.Value{Labels: x.Metric, Value: history.Number(v)})
	}
	return inOrder(all), lacks
}

// valueOf reads a number, which may be NaN or infinite, or how much a native histogram has counted.
func valueOf(raw json.RawMessage) (float64, bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var h struct{ Count string }
		if json.Unmarshal(raw, &h) != nil {
			return 0, false
		}
		text = h.Count
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// stampOf reads seconds to the millisecond, as Prometheus keeps them.
func stampOf(raw json.RawMessage) (int64, error) {
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, fmt.Errorf("a stamp is no number: %s", witness.Cut(string(raw)))
	}
	return int64(math.Round(seconds*1e3)) * 1e6, nil
}

// typeOf is what the server knows of the type of a metric; "" = nothing.
func (s *promServer) typeOf(ctx context.Context, selector string) (string, error) {
	name := selectorName(selector)
	if name == "" {
		return "", nil
	}
	base := name
	for _, end := range []string{"_total", "_bucket", "_count", "_sum"} {
		base = strings.TrimSuffix(base, end)
	}
	for _, name := range []string{name, base} {
		var data map[string][]struct{ Type string }
		err := s.get(ctx, "/api/v1/metadata", url.Values{"metric": {name}}, &data)
		if less := new(partial); err != nil && !errors.As(err, &less) {
			return "", err
		}
		if of := data[name]; len(of) > 0 {
			return of[0].Type, nil
		}
	}
	return "", nil
}
