// Package follow reads files of lines that others write, from where they end when it begins. It polls: whoever wants lines asks for
// them, and gets each with the bracket in which it was written. Files may be rotated by renaming or by truncating; what was lost in
// between is told, never passed over. Of several who want lines of a file each gets them, and it is read once.
package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
)

const (
	chunk    = 64 << 10 // is read of a file at a time
	maxFiles = 1000     // that are followed at once: more are a pattern that matches too much
	keepOld  = 4        // files of one path that were renamed and may still be written to
)

// Options say what is followed and who is told.
type Options struct {
	Globs []string                  // as filepath.Glob has them; a file that comes later is read from its beginning
	Want  func(path string) bool    // asked in each pass; nil = all that match. What becomes wanted later is read from the first pass on
	Clock func() int64              // of the brackets
	Line  func(path string, l Line) // path is what it was found by
	// Gap takes a stretch in which lines were not read. lost: some are gone for good, however short it is.
	Gap func(path string, at history.Span, why string, lost bool)
}

// Bus follows files for all who want their lines. A pass for one of them is one for all. The zero value is ready.
type Bus struct {
	mu    sync.Mutex
	all   []*Files // who wants lines
	last  int64    // when the last pass began
	paths map[string]*chain
	buf   []byte
}

// Files are the files that one of them wants. Their methods may be called at any time.
type Files struct {
	o     Options
	bus   *Bus
	begun bool
	noted map[string]note // what was found and not wanted yet
}

// note is how far a file does not count.
type note struct {
	info os.FileInfo
	size int64
	at   int64 // as of then
}

// chain is what a path has named: the last one is the present file.
type chain struct {
	path     string
	to       []reader
	files    []*file
	siblings []os.FileInfo // its rotated files, as last seen
	dark     int64         // since then its file could not be opened; -1 = it can
	why      string
}

// reader is who gets the lines of a chain, and by which path.
type reader struct {
	*Files
	path string
}

// New is Follow of a bus that nobody else is on.
func New(o Options) *Files { return new(Bus).Follow(o) }

// Follow returns files of which nothing has been read yet; nil = a bus for them alone. Their owner calls Close.
func (b *Bus) Follow(o Options) *Files {
	if b == nil {
		b = new(Bus)
	}
	if o.Want == nil {
		o.Want = func(string) bool { return true }
	}
	f := &Files{o: o, bus: b, noted: map[string]note{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all = append(b.all, f); b.paths == nil {
		b.paths, b.buf = map[string]*chain{}, make([]byte, chunk)
	}
	return f
}

// Read reads what has been written since the last pass. The first pass only finds where files end; it fails if one that is wanted cannot
// be read. With final, lines that nobody has ended are told too.
func (f *Files) Read(final bool) error {
	b := f.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	now := f.o.Clock()
	found, err := b.expand(f)
	if err != nil {
		return err
	}
	paths := slices.Sorted(maps.Keys(found))
	for _, path := range paths {
		if err := b.find(path, found[path], paths, now); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(b.paths)) {
		c := b.paths[path]
		for _, x := range c.files {
			b.drain(c, x, now)
			if final {
				c.flush(x)
			}
		}
		if final && c.dark >= 0 {
			c.seen()
		}
	}
	f.begun, b.last = true, now
	return nil
}

// Found are the paths that are followed now.
func (f *Files) Found() (all []string) {
	f.bus.mu.Lock()
	defer f.bus.mu.Unlock()
	for _, c := range f.bus.paths {
		for _, r := range c.to {
			if r.Files == f {
				all = append(all, r.path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Close closes all files that nobody else wants.
func (f *Files) Close() {
	b := f.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(o *Files) bool { return o == f })
	for path, c := range b.paths {
		if c.to = slices.DeleteFunc(c.to, func(r reader) bool { return r.Files == f }); len(c.to) > 0 {
			continue
		}
		for _, x := range c.files {
			_ = x.fd.Close()
		}
		delete(b.paths, path)
	}
}

// expand gives the paths that match now, and for whom: by, and whoever has begun.
func (b *Bus) expand(by *Files) (map[string][]*Files, error) {
	found := map[string][]*Files{}
	for _, f := range b.all {
		if !f.begun && f != by {
			continue
		}
		for _, g := range f.o.Globs {
			paths, err := filepath.Glob(g)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", g, err)
			}
			for _, path := range paths {
				if !slices.Contains(found[path], f) {
					found[path] = append(found[path], f)
				}
			}
		}
	}
	return found, nil
}

// find looks at what a path names now: a file that is followed already, a new one, or another one after a rotation.
func (b *Bus) find(path string, by []*Files, all []string, now int64) error {
	c := b.paths[path]
	if c == nil && b.isOld(path, all) {
		return nil
	}
	var news []*Files // who wants it from now on
	for _, f := range by {
		if !c.has(f) && f.wanted(path, now) {
			news = append(news, f)
		}
	}
	if c == nil && len(news) == 0 {
		return nil
	}
	if fi, err := os.Stat(path); err == nil {
		if held := b.holds(fi); held != nil { // by another name, too
			for _, f := range news {
				b.join(held, f, path, now)
			}
			return nil
		}
	}
	fd, fi, err := open(path)
	if err != nil {
		return b.unreadable(path, news, err)
	}
	if c == nil {
		if len(b.paths) >= maxFiles {
			_ = fd.Close()
			return fmt.Errorf("%s: over %d files match", strings.Join(news[0].o.Globs, ", "), maxFiles)
		}
		c = &chain{path: path, dark: -1}
		b.paths[path] = c
	}
	x := &file{fd: fd, info: fi, since: b.last}
	if c.dark >= 0 {
		x.since = c.dark
		c.seen()
	}
	first := len(c.to) == 0
	for _, f := range news {
		c.to = append(c.to, reader{f, path})
	}
	switch {
	case len(c.files) > 0:
		b.rotated(c, now)
	case !first: // it could not be opened before
	case slices.ContainsFunc(news, func(f *Files) bool { return !f.begun }):
		x.since = now
		x.startAt(fi.Size())
	default:
		if known, noted := news[0].noted[path]; noted && os.SameFile(known.info, fi) && known.size <= fi.Size() {
			x.since = known.at
			x.startAt(known.size)
		}
	}
	if len(c.files) == 0 {
		c.siblings = siblings(path)
	}
	c.files = append(c.files, x)
	return nil
}

// has reports whether somebody gets the chain's lines.
func (c *chain) has(f *Files) bool {
	return c != nil && slices.ContainsFunc(c.to, func(r reader) bool { return r.Files == f })
}

// join gives somebody the lines of a file that others want already: those from where it was when he found it, and had no use for it yet.
func (b *Bus) join(c *chain, f *Files, path string, now int64) {
	if c.has(f) {
		return
	}
	for _, x := range c.files { // what stands there by now is for the others
		b.drain(c, x, now)
	}
	me := &chain{path: path, to: []reader{{f, path}}, dark: -1}
	c.to = append(c.to, me.to...)
	known, noted := f.noted[path]
	if !noted {
		return
	}
	from := slices.IndexFunc(c.files, func(x *file) bool { return os.SameFile(x.info, known.info) })
	for i, x := range c.files[max(0, from):] {
		again := &file{fd: x.fd, info: x.info, since: known.at}
		if from >= 0 && i == 0 {
			again.startAt(min(known.size, x.at))
		}
		for again.at < x.at { // what has no end yet is to come
			n, _ := x.fd.ReadAt(b.buf[:min(int64(len(b.buf)), x.at-again.at)], again.at)
			if n == 0 {
				break
			}
			again.at += int64(n)
			me.feed(again, b.buf[:n])
		}
	}
}

// wanted asks; what is not wanted is noted, since it may be wanted later.
func (f *Files) wanted(path string, now int64) bool {
	if f.o.Want(path) {
		return true
	}
	fi, err := os.Stat(path)
	switch known, ok := f.noted[path]; {
	case err != nil, ok && os.SameFile(known.info, fi):
	case f.begun:
		f.noted[path] = note{fi, 0, f.bus.last}
	default:
		f.noted[path] = note{fi, fi.Size(), now}
	}
	return false
}

func (c *chain) clock() int64 { return c.to[0].o.Clock() }

func (c *chain) line(l Line) {
	for _, r := range c.to {
		r.o.Line(r.path, l)
	}
}

func (c *chain) gap(at history.Span, why string, lost bool) {
	for _, r := range c.to {
		r.o.Gap(r.path, at, why, lost)
	}
}

// seen tells of the stretch in which a path could not be opened.
func (c *chain) seen() {
	c.gap(history.Span{From: c.dark, To: c.clock()}, c.why, false)
	c.dark = -1
}

// unreadable keeps in mind that a path could not be opened. A path that names no file, or none any more, is none.
func (b *Bus) unreadable(path string, news []*Files, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, regular.ErrNoFile) {
		return nil
	}
	if slices.ContainsFunc(news, func(f *Files) bool { return !f.begun }) {
		return err
	}
	c := b.paths[path]
	if c == nil {
		c = &chain{path: path, dark: -1}
		b.paths[path] = c
	}
	for _, f := range news {
		c.to = append(c.to, reader{f, path})
	}
	if c.dark < 0 {
		c.dark, c.why = b.last, err.Error()
	}
	return nil
}

// rotated reads what was the present file to its end, and finds those that were it in between.
func (b *Bus) rotated(c *chain, now int64) {
	there := siblings(c.path)
	moved := false
	for _, fi := range there {
		if os.SameFile(fi, c.now().info) {
			moved = true
		}
	}
	for _, fi := range there {
		if known := slices.ContainsFunc(c.siblings, func(x os.FileInfo) bool { return os.SameFile(x, fi) }); known || b.holds(fi) != nil {
			continue
		}
		fd, fi, err := open(filepath.Join(filepath.Dir(c.path), fi.Name()))
		if err != nil {
			continue // it is packed or gone by now
		}
		c.files = append(c.files, &file{fd: fd, info: fi, since: b.last})
	}
	if !moved { // it is gone, and so may be others that came after it
		c.gap(history.Span{From: b.last, To: now}, "the file was replaced, and the one before it is gone", false)
	}
	c.siblings = there
	for len(c.files) > keepOld {
		b.drain(c, c.files[0], now)
		c.flush(c.files[0])
		_ = c.files[0].fd.Close()
		c.files = c.files[1:]
	}
}

// holds is the chain that a file is followed in; nil = none.
func (b *Bus) holds(fi os.FileInfo) *chain {
	for _, c := range b.paths {
		if slices.ContainsFunc(c.files, func(x *file) bool { return os.SameFile(x.info, fi) }) {
			return c
		}
	}
	return nil
}

func (c *chain) now() *file { return c.files[len(c.files)-1] }

// rotation is what rotated files have behind their name: a number or a time, and the name of a way to pack.
var rotation = regexp.MustCompile(`^[.-][0-9][0-9T:_.-]*(\.(gz|xz|bz2|zst))?$`)

// isOld reports a rotated file of a path that is followed.
func (b *Bus) isOld(path string, all []string) bool {
	for i := 1; i < len(path); i++ {
		if (path[i] == '.' || path[i] == '-') && rotation.MatchString(path[i:]) {
			_, listed := slices.BinarySearch(all, path[:i])
			if listed || b.paths[path[:i]] != nil {
				return true
			}
		}
	}
	return false
}

// siblings are the rotated files of a path that are not packed.
func siblings(path string) (all []os.FileInfo) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // a folder that cannot be listed shows none
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path))
		if m := rotation.FindStringSubmatch(rest); !ok || m == nil || m[1] != "" {
			continue
		}
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
			all = append(all, fi)
		}
	}
	slices.SortFunc(all, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return all
}

// Glob is what a path matches that has names in braces.
func Glob(template string) string {
	var b strings.Builder
	for rest := template; rest != ""; {
		if end := strings.IndexByte(rest, '}'); rest[0] == '{' && end > 0 {
			b.WriteByte('*')
			rest = rest[end+1:]
			continue
		}
		if strings.IndexByte(`*?[\`, rest[0]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(rest[0])
		rest = rest[1:]
	}
	return b.String()
}
