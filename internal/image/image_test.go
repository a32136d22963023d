package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// compile builds the program in testdata for an image.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, NOT TESTED: the image's binary can be run on Linux only")
	}
	binary := filepath.Join(t.TempDir(), "hello")
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath"}, flags...), "-o", binary, "./testdata/hello")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// archive packs a binary by the command itself and returns the archive's path.
func archive(t *testing.T, binary string, args ...string) (path, said string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "image.tar")
	var out bytes.Buffer
	if err := run(append([]string{"-binary", binary, "-ref", "localhost/hello:1.2", "-title", "hello", "-o", path}, args...), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	return path, out.String()
}

// content is what the image holds: path to header, and the bytes of each file.
func content(t *testing.T, img v1.Image) (headers map[string]*tar.Header, files map[string][]byte) {
	t.Helper()
	headers, files = map[string]*tar.Header{}, map[string][]byte{}
	r := mutate.Extract(img)
	defer r.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return headers, files
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		headers[name] = h
		if files[name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

func opened(t *testing.T, path string) (v1.Image, *v1.ConfigFile) {
	t.Helper()
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return img, config
}

func TestImage(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("certificates"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, said := archive(t, compile(t), "-ca", ca)
	if !strings.Contains(said, "CA certificates of "+ca) {
		t.Errorf("said %q: where do the certificates come from?", said)
	}
	img, config := opened(t, path)
	headers, files := content(t, img)
	if got := string(files["etc/ssl/certs/ca-certificates.crt"]); got != "certificates" {
		t.Errorf("CA certificates %q", got)
	}
	if h := headers["tmp"]; h == nil || h.Mode != 0o1777 || h.Typeflag != tar.TypeDir {
		t.Errorf("/tmp: %+v, want a folder for everybody", h)
	}
	for name, h := range headers {
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s: of %s, owner %d %q: the same bytes for everybody ask for neither", name, h.ModTime, h.Uid, h.Uname)
		}
	}
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/hello"}) || len(c.Cmd) > 0 {
		t.Errorf("user %q, entrypoint %q, command %q", c.User, c.Entrypoint, c.Cmd)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("platform %s/%s", config.OS, config.Architecture)
	}
	if l := c.Labels; l["org.opencontainers.image.version"] != "1.2" || l["org.opencontainers.image.title"] != "hello" || l["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("labels %v", l)
	}
	binary := filepath.Join(t.TempDir(), "hello")
	if err := os.WriteFile(binary, files["hello"], headers["hello"].FileInfo().Mode()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "a").CombinedOutput(); string(out) != "hello 1\n" || err != nil {
		t.Errorf("the image's binary: %q, %v", out, err)
	}
}

// What Docker itself reads: the name under which the archive is loaded.
func TestArchiveNamesTheImage(t *testing.T) {
	path, _ := archive(t, compile(t), "-ca", "none")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if err != nil {
			t.Fatalf("no manifest.json: %v", err)
		}
		if h.Name != "manifest.json" {
			continue
		}
		var doc []struct{ RepoTags []string }
		if err := json.NewDecoder(in).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		if len(doc) != 1 || !slices.Equal(doc[0].RepoTags, []string{"localhost/hello:1.2"}) {
			t.Errorf("manifest %+v", doc)
		}
		return
	}
}

func TestSameBytesTwice(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	first, _ := archive(t, compile(t), "-ca", "none")
	second, said := archive(t, compile(t), "-ca", "none")
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("built and packed twice, the archives differ")
	}
	if !strings.Contains(said, "no CA certificates inside") {
		t.Errorf("said %q: an image without certificates says so", said)
	}
	img, config := opened(t, first)
	headers, _ := content(t, img)
	if headers["etc"] != nil {
		t.Error("an image without certificates has an /etc")
	}
	if !config.Created.Equal(time.Unix(86400, 0)) || !headers["hello"].ModTime.Equal(config.Created.Time) {
		t.Errorf("created %s, binary of %s, want SOURCE_DATE_EPOCH", config.Created, headers["hello"].ModTime)
	}
}

func TestRefusals(t *testing.T) {
	static := compile(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"needs a loader":                {[]string{"-binary", compile(t, "-buildmode=pie"), "-ref", "a:1", "-o", out}, "CGO_ENABLED=0"},
		"a script":                      {[]string{"-binary", text, "-ref", "a:1", "-o", out}, "no Linux binary"},
		"no file":                       {[]string{"-binary", text + "x", "-ref", "a:1", "-o", out}, "read the binary"},
		"a busybox that needs a loader": {[]string{"-binary", static, "-ref", "a:1", "-o", out, "-busybox", compile(t, "-buildmode=pie")}, "must be static"},
		"no such CA":                    {[]string{"-binary", static, "-ref", "a:1", "-o", out, "-ca", text + "x"}, "read CA certificates"},
		"a bad name":                    {[]string{"-binary", static, "-ref", "A B", "-o", out, "-ca", "none"}, "image's name"},
		"no folder":                     {[]string{"-binary", static, "-ref", "a:1", "-o", text + "/x", "-ca", "none"}, "write the archive"},
		"a flag missing":                {[]string{"-binary", static, "-o", out}, "-ref"},
	} {
		if err := run(c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something of %q", name, err, c.want)
		}
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused image was written: %v", err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run([]string{"-binary", static, "-ref", "a:1", "-o", out}, io.Discard, io.Discard); err == nil {
		t.Error("a SOURCE_DATE_EPOCH that is no number was taken")
	}
}

// The image that `make image` has made, where there is one: its binary runs and says its version.
func TestShippedImage(t *testing.T) {
	path := os.Getenv("LOCKDRILL_ARCHIVE")
	if path == "" {
		t.Skip("SKIPPED, NOT TESTED: LOCKDRILL_ARCHIVE names no archive; `make image` makes one and tests it")
	}
	img, config := opened(t, path)
	headers, files := content(t, img)
	if !slices.Equal(config.Config.Entrypoint, []string{"/lockdrill"}) || headers["lockdrill"] == nil {
		t.Fatalf("entrypoint %q", config.Config.Entrypoint)
	}
	binary := filepath.Join(t.TempDir(), "lockdrill")
	if err := os.WriteFile(binary, files["lockdrill"], 0o700); err != nil {
		t.Fatal(err)
	}
	if config.Architecture != runtime.GOARCH {
		t.Skipf("SKIPPED, NOT TESTED: an image for %s does not run here", config.Architecture)
	}
	if _, debug := files["bin/busybox"]; debug != strings.HasSuffix(config.Config.Labels["org.opencontainers.image.version"], "-debug") {
		t.Errorf("a shell inside: %t, in the variant %v", debug, config.Config.Labels)
	} else if debug {
		shell := filepath.Join(t.TempDir(), "busybox")
		if err := os.WriteFile(shell, files["bin/busybox"], 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(shell, "sh", "-c", "echo up").Output(); err != nil || string(out) != "up\n" {
			t.Errorf("the shell says %q, %v", out, err)
		}
		known, err := exec.Command(shell, "--list").Output()
		if err != nil || headers["bin/sh"].Linkname != "busybox" {
			t.Errorf("/bin/sh is %+v, %v", headers["bin/sh"], err)
		}
		for _, tool := range tools() {
			if !slices.Contains(strings.Fields(string(known)), tool) {
				t.Errorf("this busybox has no %s", tool)
			}
		}
	}
	cmd := exec.Command(binary, "--version")
	cmd.Env, cmd.Dir = []string{}, t.TempDir() // as in a container: no variables, no home
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "lockdrill "+strings.TrimSuffix(config.Config.Labels["org.opencontainers.image.version"], "-debug")) {
		t.Errorf("lockdrill version: %q, %v; the image says %v", out, err, config.Config.Labels)
	}
}
