package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// released is the folder that `make release` has made.
func released(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LOCKDRILL_RELEASE")
	if dir == "" {
		t.Skip("SKIPPED, NOT TESTED: LOCKDRILL_RELEASE names no release; `make release-check` makes one and tests it")
	}
	return dir
}

// tool is a program that a test runs, or the reason why it does not.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// output is what a command prints; an error ends the test.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, t.TempDir() // no home, no source
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// archives are the platforms that the release is for, and the archive of each.
func archives(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "lockdrill-*.tar.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archive in %s, %v", dir, err)
	}
	of := map[string]string{}
	for _, path := range paths {
		words := strings.Split(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), "-")
		of[strings.Join(words[len(words)-2:], "/")] = path
	}
	return of
}

// unpacked is an archive in a folder of its own: what lies in its only folder.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	dir, only := t.TempDir(), strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, only)
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !filepath.IsLocal(h.Name) || !strings.HasPrefix(h.Name, only+"/") {
			t.Errorf("%s: owner %d %q, outside %s", h.Name, h.Uid, h.Uname, only)
		}
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(to, data, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSumsAreThoseOfTheFilesAndOfASecondBuild(t *testing.T) {
	dir := released(t)
	sums := map[string]string{}
	for line := range strings.Lines(string(read(t, filepath.Join(dir, "SHA256SUMS")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" {
			continue
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, filepath.Join(dir, e.Name())))); got != sums[e.Name()] {
			t.Errorf("%s: its sum is %s, SHA256SUMS says %q", e.Name(), got, sums[e.Name()])
		}
		delete(sums, e.Name())
	}
	if len(sums) > 0 {
		t.Errorf("sums of files that are not there: %v", sums)
	}
	again := os.Getenv("LOCKDRILL_RELEASE_AGAIN")
	if again == "" {
		t.Skip("SKIPPED, NOT TESTED: LOCKDRILL_RELEASE_AGAIN names no second build of the same commit")
	}
	if a, b := read(t, filepath.Join(dir, "SHA256SUMS")), read(t, filepath.Join(again, "SHA256SUMS")); !bytes.Equal(a, b) {
		t.Errorf("built twice, the releases differ:\n%s\n%s", a, b)
	}
}

// runs is how a program of a platform is run here; nil where it is not.
func runs(t *testing.T, platform string) []string {
	switch {
	case platform == runtime.GOOS+"/"+runtime.GOARCH:
		return []string{}
	case platform == "linux/arm64" && runtime.GOOS == "linux":
		return []string{tool(t, "qemu-aarch64-static")}
	}
	return nil
}

// header says what platform a program is for, and whether it needs a loader.
func header(program []byte) (platform string, needsLoader bool) {
	if f, err := elf.NewFile(bytes.NewReader(program)); err == nil {
		for _, p := range f.Progs {
			needsLoader = needsLoader || p.Type == elf.PT_INTERP
		}
		return "linux/" + map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine], needsLoader
	}
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", false
	}
	return "darwin/" + map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[f.Cpu], false
}

func TestArchives(t *testing.T) {
	for platform, path := range archives(t, released(t)) {
		t.Run(platform, func(t *testing.T) {
			dir := unpacked(t, path)
			program := filepath.Join(dir, "lockdrill")
			if its, loader := header(read(t, program)); its != platform || loader {
				t.Errorf("a program for %q, needs a loader: %t", its, loader)
			}
			info, err := buildinfo.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			bom := new(cdx.BOM)
			if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, filepath.Join(dir, "sbom.cdx.json"))), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
				t.Fatal(err)
			}
			named := map[string]bool{}
			for _, c := range *bom.Components {
				named[c.Name+"@"+c.Version] = true
			}
			for _, d := range info.Deps {
				if !named[d.Path+"@"+d.Version] {
					t.Errorf("the SBOM lacks %s %s", d.Path, d.Version)
				}
			}
			if len(named) != len(info.Deps)+1 {
				t.Errorf("the SBOM has %d parts, the program %d and the standard library", len(named), len(info.Deps))
			}
			if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err != nil {
				t.Error(err)
			}
			how := runs(t, platform)
			if how == nil {
				t.Logf("%s: not run here; its header says what it is", platform)
				return
			}
			argv := append(how, program, "--version")
			version := filepath.Base(dir)
			version = strings.TrimSuffix(strings.TrimPrefix(version, "lockdrill-"), "-"+strings.ReplaceAll(platform, "/", "-"))
			if out := output(t, argv[0], argv[1:]...); !strings.HasPrefix(out, "lockdrill "+version+"+") || strings.Contains(out, "dirty") || !strings.Contains(out, platform) {
				t.Errorf("lockdrill version says %q, want %s of a commit, for %s", out, version, platform)
			}
			argv = append(how, program, "validate", "first-drill")
			output(t, argv[0], argv[1:]...)
		})
	}
}

// Pages and completions are of the program beside them.
func TestPagesAndCompletions(t *testing.T) {
	path, ok := archives(t, released(t))[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		t.Skip("SKIPPED, NOT TESTED: there is no archive for this machine")
	}
	dir := unpacked(t, path)
	for _, command := range []string{"", "-run", "-judge", "-export-ci"} {
		page := read(t, filepath.Join(dir, "man", "lockdrill"+command+".1"))
		if !bytes.Contains(page, []byte(`.TH "LOCKDRILL`)) || bytes.Contains(page, []byte("Auto generated")) {
			t.Errorf("lockdrill%s.1 begins with %q", command, page[:min(80, len(page))])
		}
	}
	if man, err := exec.LookPath("man"); err == nil {
		if out := output(t, man, "--warnings", "-l", filepath.Join(dir, "man", "lockdrill-run.1")); !strings.Contains(out, "SYNOPSIS") || strings.Contains(out, "warning") {
			t.Errorf("man says:\n%.500s", out)
		}
	}
	// what the shell itself does with the completion: it asks the program
	script := `PATH="$1:$PATH"; source "$1/completions/lockdrill.bash"; COMP_WORDS=(lockdrill val); COMP_CWORD=1; COMP_LINE="lockdrill val"; COMP_POINT=13
_get_comp_words_by_ref() { cur=val prev=lockdrill cword=1; words=(lockdrill val); }
__start_lockdrill 2>/dev/null; echo "${COMPREPLY[@]}"`
	if out := output(t, tool(t, "bash"), "-c", script, "complete", dir); strings.TrimSpace(out) != "validate" {
		t.Errorf("bash completes `lockdrill val` to %q", out)
	}
	for _, shell := range []string{"zsh", "fish"} {
		if !bytes.Contains(read(t, filepath.Join(dir, "completions", "lockdrill."+shell)), []byte("__complete")) {
			t.Errorf("the completion of %s does not ask the program", shell)
		}
	}
}

// A package installs the very program of the archive.
func TestDebianPackages(t *testing.T) {
	dir := released(t)
	for platform, path := range archives(t, dir) {
		arch, ok := strings.CutPrefix(platform, "linux/")
		if !ok {
			continue
		}
		deb, err := filepath.Glob(filepath.Join(dir, "lockdrill_*_"+arch+".deb"))
		if err != nil || len(deb) != 1 {
			t.Fatalf("packages for %s: %q, %v", arch, deb, err)
		}
		root := t.TempDir()
		output(t, tool(t, "dpkg-deb"), "-x", deb[0], root)
		if !bytes.Equal(read(t, filepath.Join(root, "usr/bin/lockdrill")), read(t, filepath.Join(unpacked(t, path), "lockdrill"))) {
			t.Errorf("%s: another program than that of %s", deb[0], path)
		}
		if got := output(t, "dpkg-deb", "-f", deb[0], "Architecture"); strings.TrimSpace(got) != arch {
			t.Errorf("%s is for %s", deb[0], got)
		}
		for _, file := range []string{"usr/share/man/man1/lockdrill-run.1.gz", "usr/share/bash-completion/completions/lockdrill", "usr/share/doc/lockdrill/sbom.cdx.json"} {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Error(err)
			}
		}
		if arch == runtime.GOARCH && os.Geteuid() == 0 {
			installed := t.TempDir()
			if err := os.MkdirAll(filepath.Join(installed, "var/lib/dpkg"), 0o755); err != nil {
				t.Fatal(err)
			}
			output(t, "sh", "-c", `touch "$1/var/lib/dpkg/status" && dpkg --root="$1" --log=/dev/null --force-depends --force-script-chrootless -i "$2"`, "install", installed, deb[0])
			if out := output(t, filepath.Join(installed, "usr/bin/lockdrill"), "--version"); !strings.HasPrefix(out, "lockdrill ") {
				t.Errorf("installed, it says %q", out)
			}
		}
	}
}

// The formula is Ruby, names every archive with its sum, and no address that nobody has given.
func TestFormula(t *testing.T) {
	dir := released(t)
	path := filepath.Join(dir, "lockdrill.rb")
	text := string(read(t, path))
	for platform, archive := range archives(t, dir) {
		block := fmt.Sprintf("%s\"\n      sha256 \"%x\"", filepath.Base(archive), sha256.Sum256(read(t, archive)))
		if !strings.Contains(text, block) {
			t.Errorf("%s: the formula lacks\n%s", platform, block)
		}
	}
	if strings.Contains(text, "http") {
		t.Error("the formula points to an address, and none was given")
	}
	output(t, tool(t, "ruby"), "-c", path)
}
