// Command image packs one static binary as a container image, without a Docker daemon: an archive for `docker load`, `podman load`,
// `ctr images import` or `crane push`. It compiles nothing and pushes nothing.
//
// Its one invariant: the archive's bytes follow from its flags, the binary and the CA certificates alone: no time of day, no owner and
// no name of the machine that packs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run packs what the flags say and reports it on out.
func run(args []string, out, stderr io.Writer) error {
	var s spec
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.Binary, "binary", "", "the static Linux `file` that is the image's entrypoint")
	flags.StringVar(&s.Ref, "ref", "", "the image's `name:tag`")
	flags.StringVar(&s.Busybox, "busybox", "", "a static busybox `file`: the image has its shell and tools in /bin")
	flags.StringVar(&s.Title, "title", "", "what the image is, in a word")
	path := flags.String("o", "", "the archive to write")
	ca := flags.String("ca", "", "a `file` of CA certificates in PEM; none = an image without; the default is this machine's, if it has any")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.Binary == "" || s.Ref == "" || *path == "" || flags.NArg() > 0 {
		return errors.New("-binary, -ref and -o are needed, and nothing else: see -help")
	}
	var err error
	if s.Created, err = created(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	var from string
	if s.CA, from, err = certificates(*ca); err != nil {
		return err
	}
	p, err := pack(s)
	if err != nil {
		return err
	}
	if err := p.write(*path); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s, linux/%s, image ID %s\n", *path, s.Ref, p.arch, p.id)
	if from == "" {
		fmt.Fprintln(out, "no CA certificates inside: it can check only those TLS servers whose CA is given by file")
	} else {
		fmt.Fprintln(out, "CA certificates of", from)
	}
	return nil
}

// created is the time that all files and the image bear: SOURCE_DATE_EPOCH in seconds, or 1970.
func created(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	s, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(s, 0).UTC(), nil
}

// certificates reads the CA certificates of a file, or of the place where this system keeps them; from is "" where there are none.
func certificates(flag string) (pem []byte, from string, err error) {
	places := []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora
		"/etc/ssl/ca-bundle.pem",                            // SUSE
		"/etc/ssl/cert.pem",                                 // macOS
	}
	switch flag {
	case "":
	case "none":
		return nil, "", nil
	default:
		places = []string{flag}
	}
	for _, place := range places {
		pem, err = os.ReadFile(place)
		if err == nil {
			return pem, place, nil
		}
		if flag != "" || !errors.Is(err, os.ErrNotExist) {
			return nil, "", fmt.Errorf("read CA certificates: %w", err)
		}
	}
	return nil, "", nil
}
