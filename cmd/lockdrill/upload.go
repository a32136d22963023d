package main

import (
	"context"
	"errors"
	"fmt"
	"io"

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

// bring uploads a run.
func (u *uploadFlags) bring(stderr io.Writer, id, dir string) error {
	if u.url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deploy.UploadWithin) // an interrupted run has a verdict as well
	defer cancel()
	answer, err := u.target.Bring(ctx, dir, id, []string{experimentFile, historyFile})
	switch {
	case err == nil:
		fmt.Fprintf(stderr, "lockdrill: uploaded: %s\n", answer)
	case !errors.Is(err, upload.ErrNever):
		err = fmt.Errorf("%w; to bring it later: lockdrill judge %s --upload %s", err, fromHere(dir), u.url)
	}
	return err
}
