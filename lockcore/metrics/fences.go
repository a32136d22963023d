package metrics

import "sync"

// maxFences bounds what a lock remembers of its keys.
const maxFences = 4096

// fences remembers the highest fence of the keys seen last, to notice one that goes back. Beyond maxFences keys it forgets: job keys
// are many and rarely seen twice.
type fences struct {
	mu  sync.Mutex
	top map[string]int64
}

func newFences() fences { return fences{top: map[string]int64{}} }

// wentBack reports whether fence is not above the highest of key, and remembers it.
func (f *fences) wentBack(key string, fence int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	top, known := f.top[key]
	if known && fence <= top {
		return true
	}
	if !known && len(f.top) >= maxFences {
		for k := range f.top {
			delete(f.top, k)
			break
		}
	}
	f.top[key] = fence
	return false
}
