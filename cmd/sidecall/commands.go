package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// callFlags name a call on a command line, each with its value in one part. What is empty is left
// out, as it is without the flag.
func callFlags(tenant, conversation, turn, id string) (parts []string) {
	for _, flag := range [...]struct{ name, value string }{
		{"conversation", conversation}, {"turn", turn}, {"id", id}, {"tenant", tenant},
	} {
		if flag.value != "" {
			parts = append(parts, "--"+flag.name+" "+quoted(flag.value))
		}
	}
	return parts
}

// settleCommand is the command that settles the call of some flags, in parts.
func settleCommand(flags []string) []string {
	return append(append([]string{"sidecall resolve"}, flags...), "--as done|not_run", "--by YOU", "--reason TEXT")
}

// verifyCommand is the command that asks the verification of the call of some flags.
func verifyCommand(flags []string) []string {
	return append(append([]string{"sidecall resolve"}, flags...), "--verify")
}

// writeCommand writes a command as a shell reads it, on as many lines as a terminal needs.
func writeCommand(out io.Writer, label string, parts []string) {
	margin := strings.Repeat(" ", utf8.RuneCountInString(label))
	line := label + parts[0]
	for _, part := range parts[1:] {
		if utf8.RuneCountInString(line+" "+part+` \`) > columns {
			fmt.Fprintln(out, line+` \`)
			line = margin + "  " + part
			continue
		}
		line += " " + part
	}
	fmt.Fprintln(out, line)
}

// plainWord is a text that a shell reads as it stands.
var plainWord = regexp.MustCompile(`^[\w.:@/+-]+$`)

// word is a text as one word of a shell, quoted where it has to be.
func word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return quoted(text)
}

// quoted is a text as one word of a shell, of what a terminal can show.
func quoted(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	escaped := strconv.Quote(text)
	return "$'" + strings.NewReplacer(`\"`, `"`, `'`, `\'`).Replace(escaped[1:len(escaped)-1]) + "'"
}
