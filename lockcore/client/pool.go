package client

import "sync"

// pool runs functions in at most max goroutines; more than that wait in line.
type pool struct {
	max  int
	busy sync.WaitGroup

	mu      sync.Mutex
	running int
	line    []func()
	closed  bool
}

func newPool(max int) *pool { return &pool{max: max} }

// submit runs f soon, or never where the pool is drained.
func (p *pool) submit(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case p.running < p.max:
		p.running++
		p.busy.Add(1)
		go p.work(f)
	default:
		p.line = append(p.line, f)
	}
}

// full reports whether what is submitted now would wait.
func (p *pool) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running >= p.max
}

func (p *pool) work(f func()) {
	defer p.busy.Done()
	for f != nil {
		f()
		f = p.take()
	}
}

// take returns the next function, or nil where the goroutine may end.
func (p *pool) take() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) == 0 {
		p.running--
		return nil
	}
	f := p.line[0]
	p.line = p.line[1:]
	return f
}

// drain waits for everything submitted so far, and takes no more.
func (p *pool) drain() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.busy.Wait()
}
