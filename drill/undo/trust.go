package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/lockdrill/lockdrill/internal/regular"
)

// Latest is the link beside the folders of runs that names the newest of them: the only link to a folder that is followed.
const Latest = "latest"

// UntrustedError says that somebody else than the caller may have written a journal: nothing is undone by its word.
type UntrustedError struct {
	Path string
	Why  error
}

func (e *UntrustedError) Error() string { return fmt.Sprintf("%s is not trusted: %v", e.Path, e.Why) }

func (e *UntrustedError) Unwrap() error { return e.Why }

// Trusted says why a journal in this folder would not be believed; nil = it would. The folder is there, a journal need not be.
func Trusted(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return trusted(dir, root)
}

// trusted asks of the folder, which was opened by that name, and of the journal and the experiment in it.
func trusted(dir string, root *os.Root) error {
	path := filepath.Join(dir, File)
	refuse := func(why error) error { return &UntrustedError{Path: path, Why: why} }
	if err := links(dir); err != nil {
		return refuse(err)
	}
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := ours("the folder", folder); err != nil {
		return refuse(err)
	}
	for _, f := range [][2]string{{File, "the journal"}, {experimentFile, "the experiment"}} { // what a record may name stands in the experiment
		if err := inside(root, f[0], f[1]); err != nil {
			path = filepath.Join(dir, f[0])
			return refuse(err)
		}
	}
	return nil
}

// inside asks of a file in the folder; one that is not there is no matter.
func inside(root *os.Root, name, what string) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link", what)
	case !info.Mode().IsRegular():
		return regular.ErrNoFile
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return ours(what, file)
}

// ours reports that a file belongs to the caller or to root, and that nobody else may write to it.
func ours(what string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("whom %s belongs to cannot be told", what)
	case !isUs(stat.Uid):
		return fmt.Errorf("%s belongs to user %d", what, stat.Uid)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("everybody may write to %s", what)
	case info.Mode().Perm()&0o020 == 0:
		return nil
	case hasAccessList(f):
		return fmt.Errorf("%s has an access list that lets others write to it", what)
	}
	if who := sharedWith(int(stat.Gid)); who != "" {
		return fmt.Errorf("group %d may write to %s: %s", stat.Gid, what, who)
	}
	return nil
}

// isUs: root can do all that the caller can.
func isUs(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// sharedWith says who else than the caller and root is in a group; "" = nobody, as in a user's own group, or in one that only a
// volume of a pod has (fsGroup), which has no name.
func sharedWith(gid int) string {
	groups, err := os.Getgroups()
	if err != nil || gid != os.Getegid() && !slices.Contains(groups, gid) {
		return "it is not one of the caller's"
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	names, err := os.ReadFile("/etc/group")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	var members []string
	for l := range strings.Lines(string(names)) {
		if f := strings.Split(strings.TrimSpace(l), ":"); len(f) == 4 && f[2] == strconv.Itoa(gid) {
			members = strings.Split(f[3], ",")
		}
	}
	known := []string{""} // no member at all
	for l := range strings.Lines(string(users)) {
		f := strings.Split(strings.TrimSpace(l), ":")
		if len(f) < 4 {
			continue
		}
		uid, err := strconv.ParseUint(f[2], 10, 32)
		if err == nil && isUs(uint32(uid)) {
			known = append(known, f[0])
		} else if f[3] == strconv.Itoa(gid) {
			return f[0] + " is in it too"
		}
	}
	for _, m := range members {
		if !slices.Contains(known, m) {
			return m + " is in it too"
		}
	}
	return ""
}

const maxLinks = 40

// links follows the path of a folder. Links on the way are those of the caller or of root; the folder itself is reached by none, but
// by the one that lockdrill makes to the newest run beside it.
func links(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	const slash = string(filepath.Separator)
	at, left := slash, strings.Split(strings.TrimPrefix(dir, slash), slash)
	for followed := 0; len(left) > 0; left = left[1:] {
		next := filepath.Join(at, left[0])
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if followed++; followed > maxLinks {
			return fmt.Errorf("%s: more than %d links", dir, maxLinks)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !isUs(stat.Uid) {
			return fmt.Errorf("it is reached by somebody else's link, %s", next)
		}
		if len(left) == 1 && (left[0] != Latest || target != filepath.Base(target)) {
			return fmt.Errorf("it is reached by a link, %s: name the folder itself", next)
		}
		if filepath.IsAbs(target) {
			at, target = slash, strings.TrimPrefix(target, slash)
		}
		left = append([]string{""}, append(strings.Split(target, slash), left[1:]...)...)
	}
	return nil
}
