// Package browser opens pages in a real headless Chromium, for tests that look at what a person would see. It is for tests only, and
// judges nothing: what must hold of a page is said by the test.
//
// Its one invariant: a test that needs a browser and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// need returns the path of Chromium; without one the test is skipped, in continuous integration it fails.
func need(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("chromium is not on the PATH: continuous integration must look at pages in a real browser")
	}
	t.Skip("SKIPPED, NOT TESTED: chromium is not on the PATH")
	return ""
}

// openWithin is how long the start of the browser, or one page with all that is asked of it, may take.
const openWithin = time.Minute

// Browser is one process with a fresh profile. It lives as long as the test.
type Browser struct{ ctx context.Context }

// Start starts a browser.
func Start(t testing.TB) *Browser {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(need(t)), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.WSURLReadTimeout(openWithin), chromedp.Flag("hide-scrollbars", true),
	}
	for _, quiet := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-extensions", "disable-dev-shm-usage"} {
		options = append(options, chromedp.Flag(quiet, true))
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop) // ends the process and removes its profile
	ctx, closed := chromedp.NewContext(ctx)
	t.Cleanup(closed)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return &Browser{ctx}
}

// View is how a page is looked at.
type View struct {
	Width, Height int // CSS pixels
	Dark          bool
	Print         bool
	Script        bool // the page's own scripts run; as it is opened
}

// Views are a telephone and a desk, by day and by night.
func Views() []View {
	return []View{{Width: 360, Height: 800}, {Width: 360, Height: 800, Dark: true}, {Width: 1280, Height: 900}, {Width: 1280, Height: 900, Dark: true}}
}

// Measured is what an expression of JavaScript, a function of a width, finds in a page at each of the Views.
func (p *Page) Measured(t testing.TB, expression string) (found []string) {
	t.Helper()
	for _, v := range Views() {
		p.Show(t, v)
		for _, fault := range Eval[[]string](t, p, fmt.Sprintf("(%s)(%d)", expression, v.Width)) {
			found = append(found, v.String()+": "+fault)
		}
	}
	return found
}

func (v View) String() string {
	mode := "light"
	if v.Dark {
		mode = "dark"
	}
	if v.Print {
		mode += " print"
	}
	return fmt.Sprintf("%d px %s", v.Width, mode)
}

// Page is an open page, whose own scripts are off but where its View says so.
type Page struct {
	ctx context.Context

	mu         sync.Mutex
	requests   []string
	complaints []string
}

// Open loads an address into a page of its own and waits until it is loaded.
func (b *Browser) Open(t testing.TB, url string, v View) *Page {
	t.Helper()
	ctx, closed := chromedp.NewContext(b.ctx)
	t.Cleanup(closed)
	p := &Page{ctx: ctx}
	if err := chromedp.Listen(ctx, p.note); err != nil {
		t.Fatalf("open a page: %v", err)
	}
	p.Show(t, v)
	p.run(t, "open "+url,
		call(network.Enable, network.EnableParams{}),
		call(cdplog.Enable, cdp.Empty{}),
		call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !v.Script}),
		chromedp.Navigate(url))
	return p
}

// Show looks at the page as v says from now on.
func (p *Page) Show(t testing.TB, v View) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	if v.Dark {
		media.Features[0].Value = "dark"
	}
	if v.Print {
		media.Media = "print"
	}
	p.run(t, "show the page at "+v.String(),
		call(emulation.SetEmulatedMedia, media),
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: int64(v.Width), Height: int64(v.Height), DeviceScaleFactor: 1, Mobile: v.Width < phone,
		}))
}

// phone is below which width a page is looked at as on a telephone.
const phone = 600

// call is a command of the browser as an action.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	})
}

// note keeps what the browser asks for, and what it complains of.
func (p *Page) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *cdplog.EventEntryAdded:
		p.complaints = append(p.complaints, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.complaints = append(p.complaints, "a script of the page wrote to the console")
	}
}

// Requests are the addresses that the page has asked for so far, its own first.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Complaints are the errors and warnings of the browser's console.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.complaints)
}

// Eval computes an expression of JavaScript in the page, beside the page's own scripts.
func Eval[T any](t testing.TB, p *Page, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, openWithin)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("evaluate in the page: %v", err)
	}
	return v
}

// Picture is what is seen of the page, as PNG.
func (p *Page) Picture(t testing.TB) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, openWithin)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatalf("take a picture of the page: %v", err)
	}
	return png
}

// Press presses a key, such as "\t".
func (p *Page) Press(t testing.TB, key string) {
	t.Helper()
	p.run(t, "press a key", chromedp.KeyEvent(key))
}

func (p *Page) run(t testing.TB, what string, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, openWithin)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
