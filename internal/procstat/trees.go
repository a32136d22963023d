package procstat

import "time"

// Trees are processes, each with what it has started and what is still in its session, looked at again and again. Whoever is seen for the
// first time at a look that is not the first was born since the look before, so all that it has used and waited counts from then.
type Trees struct {
	proc    *Proc
	looked  bool
	members map[int][]int         // by root: further processes of its session, as of the last search
	used    map[int]time.Duration // by root, so far
	waited  map[int]time.Duration // by thread, so far
}

// Spent is what a tree has come to between two looks.
type Spent struct {
	Used   time.Duration // of processors
	Waited time.Duration // for one, all threads together
}

// NewTrees returns trees of which none was looked at.
func NewTrees(p *Proc) *Trees {
	return &Trees{proc: p, members: map[int][]int{}, used: map[int]time.Duration{}, waited: map[int]time.Duration{}}
}

// Search finds out which processes are in the sessions of roots. It reads all that there are, so it costs more than a look.
func (t *Trees) Search(roots []int) {
	pids, err := t.proc.All()
	if err != nil {
		return
	}
	members := make(map[int][]int, len(roots))
	for _, root := range roots {
		members[root] = nil
	}
	for _, pid := range pids {
		session, err := t.proc.Session(pid)
		if err != nil { // it has ended
			continue
		}
		if of, wanted := members[session]; wanted && pid != session {
			members[session] = append(of, pid)
		}
	}
	t.members = members
}

// Look says what each of roots has come to since the last look. One that cannot be read, because it has ended, came to nothing.
func (t *Trees) Look(roots []int) map[int]Spent {
	used, waited, spent := make(map[int]time.Duration, len(roots)), make(map[int]time.Duration, len(t.waited)), make(map[int]Spent, len(roots))
	for _, root := range roots {
		total, wait, ok := t.process(root, waited)
		if !ok {
			continue
		}
		for _, pid := range t.members[root] {
			u, w, _ := t.process(pid, waited) // of one that has ended, whoever has waited for it has the time
			total, wait = total+u, wait+w
		}
		s := Spent{Used: max(0, total-t.used[root]), Waited: wait}
		if _, known := t.used[root]; !known && !t.looked {
			s = Spent{}
		}
		used[root], spent[root] = total, s
	}
	t.used, t.waited, t.looked = used, waited, true
	return spent
}

// process reads what a process has used so far, and what its threads, which are noted, have waited since the last look.
func (t *Trees) process(pid int, note map[int]time.Duration) (used, waited time.Duration, ok bool) {
	s, err := t.proc.Process(pid)
	if err != nil {
		return 0, 0, false
	}
	threads, err := t.proc.Threads(pid)
	if err != nil {
		return 0, 0, false
	}
	for _, tid := range threads {
		if _, w, err := t.proc.Thread(pid, tid); err == nil {
			note[tid] = w
			waited += max(0, w-t.waited[tid])
		}
	}
	return s.Used, waited, true
}
