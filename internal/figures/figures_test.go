package figures_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

func ExampleClock() {
	fmt.Println(figures.Clock(12_440e6))
	// Output: T+12.4s
}

func ExampleRange() {
	fmt.Println(figures.Range(8_912_100e3, 8_920_900e3)) // the narrower, the more digits
	fmt.Println(figures.Range(66_040e6, 78_360e6))
	fmt.Println(figures.Range(-250e6, 500e6))
	fmt.Println(figures.Range(120e3, 310e3))
	fmt.Println(figures.Range(30_000_100e3, figures.Open))
	fmt.Println(figures.Range(0, figures.Open))
	fmt.Println(figures.Range(4_750e6, 4_750e6))
	// Output:
	// [8.912, 8.921]s
	// [66.0, 78.4]s
	// [-250.0, 500.0]ms
	// [120.0, 310.0]us
	// [30.000s, open]
	// [0s, open]
	// 4.75s
}

func ExampleExact() {
	fmt.Println(figures.Exact(30e9), figures.Exact(750e6), figures.Exact(1_500_499), figures.Exact(0))
	fmt.Println(figures.Floor(1_234_567), figures.Ceil(1_234_567))
	// Output:
	// 30s 750ms 1.5ms 0s
	// 1.234ms 1.235ms
}

func ExampleShort() {
	fmt.Println(figures.Short(8_912_100e3), figures.Short(123_456e3), figures.Short(-45_678e6), figures.Short(1_234_567e6), figures.Short(figures.Open))
	// Output: 8.91s 123ms -45.7s 1235s unknown
}

func ExamplePlural() {
	fmt.Println(figures.Plural(1, "stretch"), figures.Plural(2, "stretch"), figures.Plural(3, "jeopardy"), figures.Plural(1000, "epoch"), figures.Plural(0, "key"), figures.Plural(3, "process"))
	fmt.Println(figures.Count(999), figures.Count(-1234567), figures.Decimal(0.12345))
	// Output:
	// 1 stretch 2 stretches 3 jeopardies 1,000 epochs 0 keys 3 processes
	// 999 -1,234,567 0.123
}

// Rounding must never make a figure look better known than it is.
func TestRangeContainsWhatWasMeasured(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	form := regexp.MustCompile(`^\[(-?[0-9.]+), (-?[0-9.]+)\](us|ms|s)$`)
	per := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}
	for range 10_000 {
		lo := rnd.Int64N(100e9) - 5e9
		hi := lo + 1 + rnd.Int64N(1<<rnd.Int64N(34))
		text := figures.Range(lo, hi)
		m := form.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("Range(%d, %d) = %q", lo, hi, text)
		}
		a, _ := strconv.ParseFloat(m[1], 64)
		b, _ := strconv.ParseFloat(m[2], 64)
		ns := float64(per[m[3]])
		if figures.Nanoseconds(a*ns/1e9) > lo || figures.Nanoseconds(b*ns/1e9) < hi {
			t.Fatalf("Range(%d, %d) = %q does not contain it", lo, hi, text)
		}
	}
}
