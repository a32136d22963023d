package main

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// writtenCommand is a command line of lockdrill in a page: a line of a block, or a word of code.
var writtenCommand = regexp.MustCompile("(?m)(?:^(?:\\$ )?|`)lockdrill ([a-z-][^`\\n|>&;#]*)")

// Every command that the README and the documents show exists, with its flags. Those of the README that need no server, no file of the
// reader's and no minute are run as they stand.
func TestWrittenCommandsExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	more, _ := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	ran := 0
	for _, page := range append(append(pages, more...), "../../README.md") {
		for _, m := range writtenCommand.FindAllStringSubmatch(string(read(t, page)), -1) {
			words := strings.Fields(strings.NewReplacer("'", "", `"`, "", "[", "", "]", "", "\\", "").Replace(m[1]))
			if err := moved(words); err != nil {
				t.Errorf("%s: lockdrill %s: %v", page, m[1], err)
				continue
			}
			if words[0] == "--version" {
				continue
			}
			cmd, rest, err := testRoot().Find(words)
			if err == nil {
				err = cmd.ParseFlags(slices.DeleteFunc(slices.Clone(rest), func(w string) bool { return w == "--help" }))
			}
			if err != nil && !strings.Contains(err.Error(), "flag needs an argument") && !strings.Contains(err.Error(), "invalid argument") {
				t.Errorf("%s: lockdrill %s: %v", page, m[1], err)
			}
			if quick := []string{"list", "export alerts", "export dashboard", "explain WORD"}; err == nil && page == "../../README.md" && slices.Contains(quick, strings.Join(words, " ")) {
				ran++
				if got := try(t, strings.Fields(strings.Replace(m[1], "WORD", "takeover", 1))...); got.code != verdict.ExitPass || got.stdout == "" {
					t.Errorf("lockdrill %s: %+v", m[1], got)
				}
			}
		}
	}
	if ran < 3 {
		t.Errorf("%d commands of the README were run", ran)
	}
}

// A drafted drill touches what lockdrill did not start, so without consent plan and run end with 13: the README gives it, by the draft's name.
func TestTheReadmeConsentsToWhatItDrafts(t *testing.T) {
	t.Parallel()
	seen := 0
	for line := range strings.Lines(string(read(t, "../../README.md"))) {
		m := regexp.MustCompile(`^lockdrill (?:plan|run) ((\S+)\.lockdrill\.yaml)(.*)`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		seen++
		if !strings.HasPrefix(m[3], " --confirm "+m[2]) {
			t.Errorf("%s has no --confirm %s", strings.TrimSpace(line), m[2])
		}
	}
	if seen < 2 {
		t.Errorf("the README plans and runs %d drafts", seen)
	}
}

func testRoot() *cobra.Command {
	return newRootCmd(streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, nil)
}

// examplesOf are the lines of a command's examples, as the words that a shell would pass.
func examplesOf(cmd *cobra.Command) (lines [][]string) {
	for line := range strings.Lines(cmd.Example) {
		var words []string
		for _, word := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
			words = append(words, strings.Trim(word, `"'`))
		}
		lines = append(lines, words)
	}
	return lines
}

// walkCommands visits what people are shown; cobra's own completion command has its examples in its long text.
func walkCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Hidden || cmd.Name() == "completion" || !cmd.Runnable() && !cmd.HasSubCommands() {
		return
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walkCommands(sub, visit)
	}
}

func TestHelpOfEveryCommandHasExamplesThatParse(t *testing.T) {
	t.Parallel()
	walkCommands(testRoot(), func(cmd *cobra.Command) {
		lines := examplesOf(cmd)
		if len(lines) < 1 || len(lines) > 4 || cmd.Short == "" {
			t.Errorf("%s: %d examples, want 1 to 3; short text %q", cmd.CommandPath(), len(lines), cmd.Short)
		}
		own := cmd.HasSubCommands()
		for _, words := range lines {
			own = checkExample(t, words) == cmd.CommandPath() || own
		}
		if !own {
			t.Errorf("%s: no example is of the command itself: %q", cmd.CommandPath(), cmd.Example)
		}
	})
}

// checkExample holds one line against the command tree, its flags and the shipped scenarios, and returns the command it is of.
func checkExample(t *testing.T, words []string) (path string) {
	t.Helper()
	cmd, rest, err := testRoot().Find(words[1:])
	if err != nil || words[0] != "lockdrill" {
		t.Errorf("%q: no such command: %v", words, err)
		return ""
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", words, err)
		return ""
	}
	args := cmd.Flags().Args()
	if n := cmd.ArgsLenAtDash(); n > 0 { // behind it stands a command of the user's
		args = args[:n]
	}
	if err := cmd.ValidateArgs(args); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	if strings.Contains(cmd.Use, "FILE|NAME") {
		for _, name := range args {
			_, shipped := scenarios.Get(name)
			if !shipped && cmd.Name() == "run" {
				_, shipped = scenarios.GameDay(name)
			}
			if !shipped && !(cmd.Name() == "ci" && name == args[0]) {
				t.Errorf("%q: no shipped scenario %q", words, name)
			}
		}
	}
	return cmd.CommandPath()
}

// What neither takes long nor needs a server or an earlier run is executed as it stands.
func TestExamplesOfHelpWork(t *testing.T) {
	t.Parallel()
	quick := []string{"validate", "list", "explain", "export", "help", "init"}
	seen := 0
	walkCommands(testRoot(), func(cmd *cobra.Command) {
		for _, words := range examplesOf(cmd) {
			if len(words) < 2 || !slices.Contains(quick, words[1]) {
				continue
			}
			seen++
			if got := tryIn(t, t.TempDir(), words[1:]...); got.code != verdict.ExitPass {
				t.Errorf("%q: %+v", words, got)
			}
		}
	})
	if seen < 20 {
		t.Errorf("only %d examples were executed", seen)
	}
}

// Each command has a manual page. The release keeps them in the folder LOCKDRILL_MAN, as of SOURCE_DATE_EPOCH: made here, so that no
// program carries what renders them.
func TestManualPages(t *testing.T) {
	t.Parallel()
	folder := cmp.Or(os.Getenv("LOCKDRILL_MAN"), t.TempDir())
	epoch, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	must(t, err)
	when := time.Unix(epoch, 0).UTC()
	root := newRootCmd(streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, nil)
	root.DisableAutoGenTag = true
	must(t, doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "lockdrill " + release, Manual: "lockdrill", Date: &when}, folder))
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
