package verdict

import (
	"math/rand/v2"
	"testing"
)

func TestWorstExit(t *testing.T) {
	order := []int{20, 1, 10, 12, 11, 13, 14, 2, 0} // the contract
	for i, a := range order {
		for j, b := range order {
			if got, want := WorstExit(a, b), order[min(i, j)]; got != want {
				t.Errorf("WorstExit(%d, %d) = %d, want %d", a, b, got, want)
			}
		}
	}
	if got := WorstExit(); got != ExitPass {
		t.Errorf("the worst of nothing is %d", got)
	}
	if got := WorstExit(ExitPass, 99); got != ExitError {
		t.Errorf("a status outside the contract counts as %d, want %d", got, ExitError)
	}
	shuffled := append([]int{}, order[1:]...)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if got := WorstExit(shuffled...); got != ExitError {
		t.Errorf("WorstExit(%v) = %d, want %d", shuffled, got, ExitError)
	}
}
