package main

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Each command has a manual page. The release keeps them in the folder LOCKDRILL_MAN, as of SOURCE_DATE_EPOCH: made here, so that no
// program carries what renders them.
func TestManualPages(t *testing.T) {
	t.Parallel()
	folder := cmp.Or(os.Getenv("LOCKDRILL_MAN"), t.TempDir())
	epoch, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	when := time.Unix(epoch, 0).UTC()
	root := newRootCmd(streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, nil)
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "lockdrill " + release, Manual: "lockdrill", Date: &when}, folder); err != nil {
		t.Fatal(err)
	}
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		page, err := os.ReadFile(filepath.Join(folder, name+".1"))
		if err != nil {
			t.Error(err)
		} else if !bytes.HasPrefix(page, []byte(".nh\n.TH \""+strings.ToUpper(name)+"\" \"1\"")) || !bytes.Contains(page, []byte(cmd.Short[:min(12, len(cmd.Short))])) {
			t.Errorf("%s.1 begins with %.120q", name, page)
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(root)
}
