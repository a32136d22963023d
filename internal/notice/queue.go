package notice

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// Headers of a signed webhook.
const (
	TimestampHeader = "Lockdrill-Timestamp" // seconds since 1970, at this try
	SignatureHeader = "Lockdrill-Signature" // "v1=" and the hexadecimal HMAC-SHA256 of timestamp, a dot, and the body
)

// Limits of a queue.
const (
	mostWaiting = 1000 // files; what comes on top is given up at once
	mostTold    = 64 << 10
)

// Queue tells events. Its fields may be set before it is used.
type Queue struct {
	Dir     string // of what is to be told
	Notices []experiments.Notice
	Say     func(string)                  // a line for the log
	Within  time.Duration                 // a try
	Pause   func(tries int) time.Duration // after so many that failed
	GiveUp  time.Duration                 // after the first try

	more         chan struct{}
	mu           sync.Mutex
	sent, failed int
}

// Open makes a queue in a folder, which may have what an earlier process did not get told. It refuses secrets that cannot be read.
func Open(dir string, notices []experiments.Notice, say func(string)) (*Queue, error) {
	q := &Queue{
		Dir: dir, Notices: notices, Say: say, Within: 15 * time.Second, GiveUp: 24 * time.Hour, more: make(chan struct{}, 1),
		Pause: func(tries int) time.Duration { return min(5*time.Second<<min(tries-1, 10), 30*time.Minute) },
	}
	if err := Check(notices); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("notices: %w", err)
	}
	return q, nil
}

// Check refuses notices whose secrets cannot be read.
func Check(notices []experiments.Notice) error {
	for i := range notices {
		if _, _, err := addressOf(&notices[i]); err != nil {
			return fmt.Errorf("notice %s: %w", notices[i].Name, err)
		}
	}
	return nil
}

// Add writes down what is to be told of an event. An error is said in the log as well: it is nobody's reason to stop.
func (q *Queue) Add(e Event) error {
	var err error
	for i := range q.Notices {
		all, broken := items(&q.Notices[i], &e, time.Now())
		err = errors.Join(err, broken)
		for _, it := range all {
			if waiting, _ := q.Waiting(); waiting >= mostWaiting {
				err = errors.Join(err, fmt.Errorf("%d notices wait already: %s to %s is not told", waiting, it.About, it.To))
				break
			}
			err = errors.Join(err, write(filepath.Join(q.Dir, fmt.Sprintf("%020d-%s.json", time.Now().UnixNano(), rand.Text()[:6])), it))
		}
	}
	if err != nil {
		q.Say(fmt.Sprintf("notices: %v", err))
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
	return err
}

// Waiting counts what is still to be told.
func (q *Queue) Waiting() (int, error) {
	files, err := filepath.Glob(filepath.Join(q.Dir, "*.json"))
	return len(files), err
}

// Told counts what was told, and tries that failed.
func (q *Queue) Told() (sent, failed int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent, q.failed
}

func (q *Queue) count(sent, failed int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent, q.failed = q.sent+sent, q.failed+failed
}

// write replaces a file as a whole.
func write(path string, it item) error {
	data, err := json.Marshal(it)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Run tells what there is to tell until ctx ends. Each address has its own turn: one that hangs holds up no other.
func (q *Queue) Run(ctx context.Context) error {
	for {
		next := q.round(ctx)
		wait := time.NewTimer(min(max(time.Until(next), 0), time.Minute))
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil
		case <-q.more:
		case <-wait.C:
		}
		wait.Stop()
	}
}

// round tries all that is due, and says when something is next.
func (q *Queue) round(ctx context.Context) (next time.Time) {
	next = time.Now().Add(time.Minute)
	files, _ := filepath.Glob(filepath.Join(q.Dir, "*.json"))
	slices.Sort(files)
	lanes := map[string][]string{}
	for _, path := range files {
		it, err := read(path)
		if err != nil {
			q.Say(fmt.Sprintf("notices: %s is dropped: %v", filepath.Base(path), err))
			_ = os.Remove(path)
			continue
		}
		if it.Next.After(time.Now()) {
			if it.Next.Before(next) {
				next = it.Next
			}
			continue
		}
		lanes[it.To] = append(lanes[it.To], path)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, lane := range lanes {
		wg.Go(func() {
			for _, path := range lane {
				again := q.try(ctx, path)
				if again.IsZero() {
					continue
				}
				mu.Lock()
				if again.Before(next) {
					next = again
				}
				mu.Unlock()
				return // it would not take the others either
			}
		})
	}
	wg.Wait()
	return next
}

// try sends one thing; zero = it is done with, sent or given up.
func (q *Queue) try(ctx context.Context, path string) (again time.Time) {
	it, err := read(path)
	if err != nil {
		return again
	}
	i := slices.IndexFunc(q.Notices, func(n experiments.Notice) bool { return n.Name == it.To })
	if i < 0 {
		q.Say(fmt.Sprintf("notice %s: not in the schedule any more: %s is not told", it.To, it.About))
		_ = os.Remove(path)
		return again
	}
	err = q.send(ctx, &q.Notices[i], it.Body)
	if ctx.Err() != nil {
		return time.Now() // this process ends: the next one tries
	}
	if err == nil {
		q.count(1, 0)
		_ = os.Remove(path)
		return again
	}
	q.count(0, 1)
	it.Tries++
	if time.Since(it.First) > q.GiveUp {
		q.Say(fmt.Sprintf("notice %s: given up after %d tries: %s: %v", it.To, it.Tries, it.About, err))
		_ = os.Remove(path)
		return again
	}
	it.Next = time.Now().Add(q.Pause(it.Tries))
	q.Say(fmt.Sprintf("notice %s: try %d failed: %s: %v; again at %s", it.To, it.Tries, it.About, err, it.Next.Format(time.TimeOnly)))
	if err := write(path, it); err != nil {
		q.Say(fmt.Sprintf("notices: %v", err))
	}
	return it.Next
}

func read(path string) (it item, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return it, err
	}
	return it, json.Unmarshal(data, &it)
}

// client follows nobody: what is signed, or carries a token, is for the address that the schedule names.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (q *Queue) send(ctx context.Context, n *experiments.Notice, body []byte) error {
	address, secret, err := addressOf(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, q.Within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("its address is none")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "lockdrill")
	switch {
	case n.Webhook != nil:
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		r.Header.Set("Content-Type", "application/cloudevents+json; charset=UTF-8")
		r.Header.Set(TimestampHeader, stamp)
		r.Header.Set(SignatureHeader, Sign(secret, stamp, body))
	case n.Grafana != nil:
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	answer, err := client.Do(r)
	if err != nil {
		if said := new(url.Error); errors.As(err, &said) { // it spells the address in a way of its own
			err = said.Err
		}
		return errors.New(hidden(err.Error(), address, secret))
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, mostTold))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return fmt.Errorf("answered %s %.200s", answer.Status, hidden(strings.Join(strings.Fields(string(said)), " "), address, secret))
}

// hidden takes what is secret out of what others say.
func hidden(text, address, secret string) string {
	text = strings.ReplaceAll(text, address, "its address")
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// Sign is the signature of a webhook's body.
func Sign(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// addressOf is where a notice goes, and the secret that goes with it.
func addressOf(n *experiments.Notice) (address, secret string, err error) {
	switch {
	case n.Webhook != nil:
		address, err = secretOf(n.Webhook.URLEnv, n.Webhook.URLFile)
		address = cmp.Or(n.Webhook.URL, address)
		if err == nil {
			secret, err = secretOf(n.Webhook.SecretEnv, n.Webhook.SecretFile)
		}
	case n.Slack != nil:
		address, err = secretOf(n.Slack.URLEnv, n.Slack.URLFile)
	default:
		address = strings.TrimRight(n.Grafana.URL, "/") + "/api/annotations"
		secret, err = secretOf(n.Grafana.TokenEnv, n.Grafana.TokenFile)
	}
	return address, secret, err
}

// secretOf reads a secret from where the schedule says that it is; "" where it names no place.
func secretOf(variable, file string) (string, error) {
	switch {
	case variable != "":
		if value := strings.TrimSpace(os.Getenv(variable)); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set", variable)
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if value := strings.TrimSpace(string(data)); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("%s is empty", file)
	}
	return "", nil
}
