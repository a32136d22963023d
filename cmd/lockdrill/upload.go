package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/upload"
)

// uploadFlags say where a run is brought when it is over.
type uploadFlags struct {
	url, tokenFile string
	target         upload.Target
}

func (u *uploadFlags) flags(flags *pflag.FlagSet) {
	flags.StringVar(&u.url, "upload", "", "address of a lockdrill serve that gets the run when it is over; the token stands in $"+deploy.UploadTokenEnv+" or in --upload-token-file")
	flags.StringVar(&u.tokenFile, "upload-token-file", "", "file with the token of --upload")
}

// check reads the token before anything is run.
func (u *uploadFlags) check() error {
	if u.url == "" {
		if u.tokenFile != "" {
			return usagef("--upload-token-file goes with --upload")
		}
		return nil
	}
	token, err := tokenFrom(u.tokenFile, deploy.UploadTokenEnv)
	if err != nil {
		return usagef("--upload-token-file: %w", err)
	}
	if token == "" {
		return usagef("--upload needs a token: in $%s, or in --upload-token-file; lockdrill serve token makes one with the role upload", deploy.UploadTokenEnv)
	}
	u.target = upload.Target{URL: u.url, Token: token}
	if err := u.target.Check(); err != nil {
		return usagef("--upload: %w", err)
	}
	return nil
}

// bring uploads a run, and those that have waited for the server. A run that cannot be brought now is noted.
func (u *uploadFlags) bring(stderr io.Writer, id, dir string) error {
	if u.url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deploy.UploadWithin) // an interrupted run has a verdict as well
	defer cancel()
	files, runs, run := []string{experimentFile, historyFile}, filepath.Dir(dir), upload.Run{ID: id, Folder: filepath.Base(dir)}
	answer, err := u.target.Bring(ctx, runs, run, files)
	switch {
	case errors.Is(err, upload.ErrNever):
		return err
	case err != nil:
		if noted := upload.Note(runs, run, u.url); noted != nil {
			return errors.Join(err, noted)
		}
		return fmt.Errorf("%w; noted in %s: the next run --upload from here brings it", err, filepath.Join(fromHere(runs), upload.Queue))
	}
	fmt.Fprintf(stderr, "lockdrill: uploaded: %s\n", answer)
	return u.target.Left(ctx, runs, files, func(line string) { fmt.Fprintln(stderr, "lockdrill: "+line) })
}
