package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// user is the number of the account that the image runs as: not root, and known to no machine.
const user = "65532:65532"

// caPath is where Go looks for CA certificates first.
const caPath = "etc/ssl/certs/ca-certificates.crt"

// link stands for the mode of a symbolic link, whose content is where it leads.
const link = -1

var errNoShell = errors.New("it must be static and for the same architecture")

// spec says what an image is made of.
type spec struct {
	Binary  string // path; its base name is the entrypoint, below /
	Busybox string // path of one for the same architecture, "" = no shell
	Ref     string // name:tag
	Title   string
	CA      []byte // PEM; nil = none
	Created time.Time
}

// packed is an image that could be written.
type packed struct {
	img  v1.Image
	tag  name.Tag
	arch string // GOARCH of the binary
	id   string // "sha256:...", what a runtime calls the image
}

// pack makes the image in memory. An error says why the binary cannot run alone in a container.
func pack(s spec) (*packed, error) {
	tag, err := name.NewTag(s.Ref)
	if err != nil {
		return nil, fmt.Errorf("read the image's name: %w", err)
	}
	binary, err := os.ReadFile(s.Binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	arch, err := static(binary)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Binary, err)
	}
	var busybox []byte
	if s.Busybox != "" {
		if busybox, err = os.ReadFile(s.Busybox); err != nil {
			return nil, fmt.Errorf("read busybox: %w", err)
		}
		if its, err := static(busybox); err != nil || its != arch {
			return nil, fmt.Errorf("%s: a busybox for %q beside a binary for %q: %w", s.Busybox, its, arch, errors.Join(errNoShell, err))
		}
	}
	base := filepath.Base(s.Binary)
	files, err := layer(base, binary, busybox, s.CA, s.Created)
	if err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	search := "PATH=/"
	if busybox != nil {
		search = "PATH=/:/bin"
	}
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: s.Created}
	config.Config = v1.Config{
		Entrypoint: []string{"/" + base},
		User:       user,
		WorkingDir: "/",
		Env:        []string{search},
		Labels:     labels(s, tag, binary),
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, fmt.Errorf("write the image's configuration: %w", err)
	}
	id, err := img.ConfigName()
	if err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	return &packed{img: img, tag: tag, arch: arch, id: id.String()}, nil
}

// write writes the archive. It is there as a whole or not at all.
func (p *packed) write(to string) error {
	f, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*")
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer os.Remove(f.Name()) // there is none after the rename
	defer f.Close()
	if err := tarball.Write(p.tag, p.img, f); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	if err := f.Chmod(0o644); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return os.Rename(f.Name(), to)
}

// static is the architecture of a binary that needs nothing beside itself. In an image from scratch any other one ends with the
// misleading "no such file or directory".
func static(binary []byte) (arch string, err error) {
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return "", fmt.Errorf("no Linux binary: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("it needs a loader and libraries, which an image from scratch has not: build it with CGO_ENABLED=0")
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("a binary for %s: only amd64 and arm64 are known here", f.Machine)
}

// labels are the OCI annotations by which people and scanners know an image.
func labels(s spec, tag name.Tag, binary []byte) map[string]string {
	const prefix = "org.opencontainers.image."
	l := map[string]string{
		prefix + "created":  s.Created.Format(time.RFC3339),
		prefix + "licenses": "Apache-2.0",
		prefix + "version":  tag.TagStr(),
	}
	if s.Title != "" {
		l[prefix+"title"] = s.Title
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return l // no Go binary: its commit is not known
	}
	for _, b := range info.Settings {
		if b.Key == "vcs.revision" {
			l[prefix+"revision"] = b.Value
		}
	}
	return l
}

// tools are the names by which busybox is called: what steps of CI systems and somebody who looks around in a pod need.
func tools() []string {
	return strings.Fields("sh cat chmod cp cut date df env false grep head id kill ls mkdir mv printf ps pwd rm sed sleep sort tail tar test top touch tr true wc wget")
}

// layer is the file system of the image as a tar archive: the binary, a /tmp for everybody, CA certificates where there are any, and
// /bin where there is a busybox.
func layer(base string, binary, busybox, ca []byte, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	put := func(name string, mode int64, data []byte) error {
		h := &tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: when, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		switch {
		case data == nil:
			h.Typeflag = tar.TypeDir
		case mode == link:
			h.Typeflag, h.Mode, h.Size, h.Linkname, data = tar.TypeSymlink, 0o777, 0, string(data), nil
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	if err := put("tmp/", 0o1777, nil); err != nil {
		return nil, err
	}
	if ca != nil {
		for _, dir := range []string{"etc/", "etc/ssl/", path.Dir(caPath) + "/"} {
			if err := put(dir, 0o755, nil); err != nil {
				return nil, err
			}
		}
		if err := put(caPath, 0o644, ca); err != nil {
			return nil, err
		}
	}
	if busybox != nil {
		if err := errors.Join(put("bin/", 0o755, nil), put("bin/busybox", 0o755, busybox)); err != nil {
			return nil, err
		}
		for _, tool := range tools() {
			if err := put("bin/"+tool, link, []byte("busybox")); err != nil {
				return nil, err
			}
		}
	}
	if err := put(base, 0o755, binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
