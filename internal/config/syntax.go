package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/sidecall/sidecall/internal/tool"
)

// maxDepth bounds nesting, after aliases have been expanded.
const maxDepth = 100

// parseText turns the text of a file into the node of its one document; an
// empty file is an empty mapping. It returns nil with a problem.
func parseText(found *collector, data []byte) *yaml.Node {
	if len(data) > MaxFileBytes {
		found.find(RuleSyntax, Problem{}, "cannot read the file: %v: more than %s", errTooLarge, Bytes(MaxFileBytes))
		return nil
	}
	if !checkRunes(found, data) {
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return notYAML(found, data, err)
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
	case err != nil:
		return notYAML(found, data, err)
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return notYAML(found, data, err)
	default:
		found.find(RuleSyntax, place(&second), "a second document starts here; expected one document in the file: remove the --- line or move what follows into a file of its own")
		return nil
	}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		return doc.Content[0]
	}
	return &doc
}

// checkRunes finds what no YAML file may hold; the parser would report these
// without a position.
func checkRunes(found *collector, data []byte) bool {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		bad := ""
		switch {
		case r == utf8.RuneError && size == 1:
			bad = "a byte that is not UTF-8; save the file as UTF-8"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			bad = fmt.Sprintf("a control character (%U); remove it, or write it as an escape in double quotes", r)
		}
		if bad != "" {
			found.find(RuleSyntax, Problem{Line: line, Column: column}, "found %s", bad)
			return false
		}
		i += size
		column++
		if breaksLine(r, data[i:]) {
			line, column = line+1, 1
		}
	}
	return true
}

// breaksLine reports whether the parser counts a new line after r.
func breaksLine(r rune, rest []byte) bool {
	switch r {
	case '\n', 0x85, 0x2028, 0x2029:
		return true
	case '\r':
		return len(rest) == 0 || rest[0] != '\n'
	default:
		return false
	}
}

// notYAML gives the parser's error its position and says what to do about the
// mistakes that people make.
func notYAML(found *collector, data []byte, err error) *yaml.Node {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		found.find(RuleSyntax, Problem{}, "not YAML: %s", parserSays(strings.TrimPrefix(err.Error(), "yaml: ")))
		return nil
	}
	message := "not YAML: " + parserSays(le.Message)
	if le.ContextMsg != "" {
		message += " " + parserSays(le.ContextMsg)
		if le.ContextMark.Line > 0 && le.ContextMark.Line != le.Mark.Line {
			message += fmt.Sprintf(" that starts at line %d, column %d", le.ContextMark.Line, le.ContextMark.Column)
		}
	}
	if advice := syntaxAdvice(le, lineAt(data, le.Mark.Line)); advice != "" {
		message += "; " + advice
	}
	found.find(RuleSyntax, Problem{Line: le.Mark.Line, Column: le.Mark.Column}, "%s", message)
	return nil
}

// parserSays are the words of the parser, which may quote an anchor or a tag of
// any length.
func parserSays(message string) string { return tool.Shorten(message, 200) }

func syntaxAdvice(le *yaml.LoadError, line string) string {
	here, before := "", line
	if runes := []rune(line); le.Mark.Column >= 1 && le.Mark.Column <= len(runes) {
		here, before = string(runes[le.Mark.Column-1]), string(runes[:le.Mark.Column-1])
	}
	switch {
	case here == "\t" || strings.TrimLeft(before, " \t") == "" && strings.Contains(before, "\t"):
		return "indent with spaces, not with tabs"
	case here == "@" || here == "`" || here == "%":
		return "put a value that starts with " + here + " in quotes"
	case strings.Contains(le.Message, "mapping values are not allowed"):
		return `put a value that holds ": " in quotes, and indent keys of one mapping alike`
	case strings.Contains(le.ContextMsg, "alias"), strings.Contains(le.Message, "unknown anchor"):
		return "put what starts with * in quotes: it would be an alias"
	case strings.Contains(le.Message, "block sequence entries are not allowed"):
		return `put a text that starts with "- " in quotes, and begin a list on a line of its own`
	case strings.Contains(line, "${") && strings.Contains(le.ContextMsg, "flow"):
		return `put a value that holds ${...} in quotes`
	default:
		return ""
	}
}

// lineAt is one line of data, counted from 1; empty when there is none.
func lineAt(data []byte, line int) string {
	for ; line > 1; line-- {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return ""
		}
		data = data[i+1:]
	}
	text, _, _ := bytes.Cut(data, []byte{'\n'})
	return string(text)
}
