// Package sdk sends traces by the official SDK of OpenTelemetry, which weighs much: a build has it that registers it.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockdrill/lockdrill/internal/otlp"
	"github.com/lockdrill/lockdrill/reports"
)

// mostAtOnce bounds the spans of one request.
const mostAtOnce = 1000

// Register lets the build send traces.
func Register() struct{} { return otlp.Register(send) }

// send sends a trace to an address; "" = that of the standard variables.
func send(ctx context.Context, to, version string, began time.Time, root reports.Span) (id string, err error) {
	options := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{})}
	if to != "" {
		options = append(options, otlptracehttp.WithEndpointURL(to))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return "", fmt.Errorf("open the exporter: %w", err)
	}
	defer func() { _ = exporter.Shutdown(context.WithoutCancel(ctx)) }()
	from, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "lockdrill"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return "", fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var kept keeper
	provider := sdk.NewTracerProvider(sdk.WithResource(from), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(&kept))
	id = record(context.Background(), provider.Tracer("github.com/lockdrill/lockdrill", trace.WithInstrumentationVersion(version)), began, &root)
	for len(kept.spans) > 0 {
		n := min(len(kept.spans), mostAtOnce)
		if err := exporter.ExportSpans(ctx, kept.spans[:n]); err != nil {
			return "", told(err)
		}
		kept.spans = kept.spans[n:]
	}
	return id, nil
}

// told says what became of a request without the words of the SDK.
func told(err error) error {
	var asked *url.Error
	switch {
	case !errors.As(err, &asked):
		return err
	case asked.Timeout():
		return fmt.Errorf("%s did not answer within %s", asked.URL, otlp.Within)
	}
	return fmt.Errorf("%s cannot be reached: %w", asked.URL, asked.Err)
}

// record makes a span, and those below it.
func record(ctx context.Context, tracer trace.Tracer, began time.Time, s *reports.Span) (id string) {
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * 1e9)) }
	var attributes []attribute.KeyValue
	for _, l := range s.Labels {
		if l[1] != "" {
			attributes = append(attributes, attribute.String(l[0], l[1]))
		}
	}
	for name, v := range s.Figures {
		attributes = append(attributes, attribute.Float64(name, v))
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(at(s.From)), trace.WithAttributes(attributes...)}
	other := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": s.Link}))
	if other.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: other}))
	}
	ctx, span := tracer.Start(ctx, s.Name, options...)
	for _, m := range s.Moments {
		span.AddEvent(m.Name, trace.WithTimestamp(at(m.At)))
	}
	if s.Wrong != "" {
		span.SetStatus(codes.Error, s.Wrong)
	}
	for i := range s.Below {
		record(ctx, tracer, began, &s.Below[i])
	}
	span.End(trace.WithTimestamp(at(max(s.From, s.To))))
	return span.SpanContext().TraceID().String()
}

// keeper keeps the spans that have ended: they are sent together.
type keeper struct{ spans []sdk.ReadOnlySpan }

func (*keeper) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (k *keeper) OnEnd(s sdk.ReadOnlySpan)                 { k.spans = append(k.spans, s) }
func (*keeper) Shutdown(context.Context) error             { return nil }
func (*keeper) ForceFlush(context.Context) error           { return nil }
