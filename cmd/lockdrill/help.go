package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// helpOf is what cobra has to say about a command, at most so wide. Paragraphs flow. Other lines that are too long go on below
// themselves: the text of a flag below its text, as does that of a command in a list. Examples stay as they are typed.
func helpOf(cmd *cobra.Command, width int) string {
	var out strings.Builder
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	out.WriteString(flowed(about, width) + "\n")
	if !cmd.Runnable() && !cmd.HasSubCommands() {
		return out.String()
	}
	out.WriteString("\n")
	examples := false
	for line := range strings.Lines(cmd.UsageString()) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, " ") {
			examples = line == "Examples:"
		}
		if !examples && len(line) > width {
			line = below(line, width)
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// flowed breaks paragraphs anew. A line that is indented is none of them, and stays a line.
func flowed(text string, width int) string {
	var lines []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			lines, paragraph = append(lines, wrapped(paragraph, width)...), ""
		}
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, " \n"), "\n") {
		switch {
		case line == "":
			end()
			lines = append(lines, "")
		case strings.HasPrefix(line, " "):
			end()
			if len(line) > width {
				line = below(line, width)
			}
			lines = append(lines, line)
		default:
			paragraph += " " + line
		}
	}
	end()
	return strings.Join(lines, "\n")
}

// below breaks a line of two columns, whose second goes on below itself.
func below(line string, width int) string {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if i := strings.LastIndex(text[:min(len(text), 2*width/3)], "   "); i >= 0 {
		indent += i + 3
	} else if i := strings.Index(text[:min(len(text), 2*width/3)], "  "); i >= 0 {
		indent += i + 2
	}
	return line[:indent] + strings.Join(wrapped(line[indent:], width-indent), "\n"+strings.Repeat(" ", indent))
}
