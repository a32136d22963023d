// Package follow reads files of lines that others write, from where they end when it begins. It polls: whoever wants lines asks for
// them, and gets each with the bracket in which it was written. Files may be rotated by renaming or by truncating; what was lost in
// between is told, never passed over.
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

// Files follows files. Its methods may be called at any time.
type Files struct {
	o Options

	mu    sync.Mutex
	begun bool
	last  int64           // when the last pass began
	noted map[string]note // what was found and nobody wanted yet
	paths map[string]*chain
	buf   []byte
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
	files    []*file
	siblings []os.FileInfo // its rotated files, as last seen
	dark     int64         // since then its file could not be opened; -1 = it can
	why      string
}

// New returns a reader that has read nothing yet.
func New(o Options) *Files {
	if o.Want == nil {
		o.Want = func(string) bool { return true }
	}
	return &Files{o: o, noted: map[string]note{}, paths: map[string]*chain{}, buf: make([]byte, chunk)}
}

// Read reads what has been written since the last pass. The first pass only finds where files end; it fails if one that is wanted cannot
// be read. With final, lines that nobody has ended are told too.
func (f *Files) Read(final bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Clock()
	paths, err := f.expand()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := f.find(path, paths, now); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(f.paths)) {
		c := f.paths[path]
		for _, x := range c.files {
			f.drain(c, x, now)
			if final {
				f.flush(c, x)
			}
		}
		if final && c.dark >= 0 {
			f.seen(c)
		}
	}
	f.begun, f.last = true, now
	return nil
}

// Found are the paths that are followed now.
func (f *Files) Found() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.paths))
}

// Close closes all files.
func (f *Files) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.paths {
		for _, x := range c.files {
			_ = x.fd.Close()
		}
	}
	clear(f.paths)
}

// expand gives the paths that match now.
func (f *Files) expand() ([]string, error) {
	var all []string
	for _, g := range f.o.Globs {
		found, err := filepath.Glob(g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g, err)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// find looks at what a path names now: a file that is followed already, a new one, or another one after a rotation.
func (f *Files) find(path string, all []string, now int64) error {
	c := f.paths[path]
	if c == nil && (f.isOld(path, all) || !f.wanted(path, now)) {
		return nil
	}
	if fi, err := os.Stat(path); err == nil && f.holds(fi) { // by another name, too
		return nil
	}
	fd, fi, err := open(path)
	if err != nil {
		return f.unreadable(path, err)
	}
	if c == nil {
		if len(f.paths) >= maxFiles {
			_ = fd.Close()
			return fmt.Errorf("%s: over %d files match", strings.Join(f.o.Globs, ", "), maxFiles)
		}
		c = &chain{path: path, dark: -1}
		f.paths[path] = c
	}
	x := &file{fd: fd, info: fi, since: f.last}
	if c.dark >= 0 {
		x.since = c.dark
		f.seen(c)
	}
	known, noted := f.noted[path]
	switch {
	case len(c.files) > 0:
		f.rotated(c, now)
	case !f.begun:
		x.since = now
		x.startAt(fi.Size())
	case noted && os.SameFile(known.info, fi) && known.size <= fi.Size():
		x.since = known.at
		x.startAt(known.size)
	}
	if len(c.files) == 0 {
		c.siblings = siblings(path)
	}
	c.files = append(c.files, x)
	return nil
}

// wanted asks; what nobody wants is noted, since it may be wanted later.
func (f *Files) wanted(path string, now int64) bool {
	if f.o.Want(path) {
		return true
	}
	fi, err := os.Stat(path)
	switch known, ok := f.noted[path]; {
	case err != nil, ok && os.SameFile(known.info, fi):
	case f.begun:
		f.noted[path] = note{fi, 0, f.last}
	default:
		f.noted[path] = note{fi, fi.Size(), now}
	}
	return false
}

// seen tells of the stretch in which a path could not be opened.
func (f *Files) seen(c *chain) {
	f.o.Gap(c.path, history.Span{From: c.dark, To: f.o.Clock()}, c.why, false)
	c.dark = -1
}

// unreadable keeps in mind that a path could not be opened. A path that names no file, or none any more, is none.
func (f *Files) unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFile) {
		return nil
	}
	if !f.begun {
		return err
	}
	c := f.paths[path]
	if c == nil {
		c = &chain{path: path, dark: -1}
		f.paths[path] = c
	}
	if c.dark < 0 {
		c.dark, c.why = f.last, err.Error()
	}
	return nil
}

// rotated reads what was the present file to its end, and finds those that were it in between.
func (f *Files) rotated(c *chain, now int64) {
	there := siblings(c.path)
	moved := false
	for _, fi := range there {
		if os.SameFile(fi, c.now().info) {
			moved = true
		}
	}
	for _, fi := range there {
		if known := slices.ContainsFunc(c.siblings, func(x os.FileInfo) bool { return os.SameFile(x, fi) }); known || f.holds(fi) {
			continue
		}
		fd, fi, err := open(filepath.Join(filepath.Dir(c.path), fi.Name()))
		if err != nil {
			continue // it is packed or gone by now
		}
		c.files = append(c.files, &file{fd: fd, info: fi, since: f.last})
	}
	if !moved { // it is gone, and so may be others that came after it
		f.o.Gap(c.path, history.Span{From: f.last, To: now}, "the file was replaced, and the one before it is gone", false)
	}
	c.siblings = there
	for len(c.files) > keepOld {
		f.drain(c, c.files[0], now)
		f.flush(c, c.files[0])
		_ = c.files[0].fd.Close()
		c.files = c.files[1:]
	}
}

// holds reports whether a file is followed.
func (f *Files) holds(fi os.FileInfo) bool {
	for _, c := range f.paths {
		if slices.ContainsFunc(c.files, func(x *file) bool { return os.SameFile(x.info, fi) }) {
			return true
		}
	}
	return false
}

func (c *chain) now() *file { return c.files[len(c.files)-1] }

// rotation is what rotated files have behind their name: a number or a time, and the name of a way to pack.
var rotation = regexp.MustCompile(`^[.-][0-9][0-9T:_.-]*(\.(gz|xz|bz2|zst))?$`)

// isOld reports a rotated file of a path that is followed.
func (f *Files) isOld(path string, all []string) bool {
	for i := 1; i < len(path); i++ {
		if (path[i] == '.' || path[i] == '-') && rotation.MatchString(path[i:]) {
			_, listed := slices.BinarySearch(all, path[:i])
			if listed || f.paths[path[:i]] != nil {
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
